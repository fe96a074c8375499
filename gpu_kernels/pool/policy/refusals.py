"""The texts of refusals. A student reads them in JupyterLab's dialog: three short lines of plain text
each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpu_kernels.errors import (
    CourseAmbiguous,
    CourseLimit,
    NoSuchClass,
    NotAMember,
    PoolFull,
    Refused,
    SliceTooLarge,
    UnknownCourse,
)
from gpu_kernels.pool.policy.model import (
    Ask,
    Fact,
    Gpu,
    KeptByPromise,
    KeptBySeats,
    QuotaBinds,
    ServerOut,
    TooFull,
)
from gpu_kernels.units import ANY_CLASS, Size, thousandths_text

WITHOUT_GPU = "or choose 'Python 3' to work without a GPU."
PATIENCE = 30.0
"""Seconds after which asking again is worth while; slices come back when others stop their kernels."""
MOMENT = 2.0
"""Seconds within which an agent that answers has confirmed the end of a lease."""


def over_quota(ask: Ask, binds: QuotaBinds, shares: Mapping[str, int | None]) -> Refused:
    """An account's quota stands against it: the course's own, or one that it shares with other courses.

    ``shares``: the most that the course may hold of each GPU class; None where nothing but others limits it.
    """
    gpu_class = binds.gpu_class
    details: dict[str, Any] = {
        "course": ask.course,
        "account": binds.account,
        "gpu_class": gpu_class,
        "held": binds.held,
        "ending": binds.ending,
        "limit": binds.most,
        "asked": binds.asked,
    }
    if binds.kind == "course" and binds.most == 0 and binds.held == 0:
        return CourseLimit(_no_share(ask.course, gpu_class, shares), details=details)
    asked, most = thousandths_text(binds.asked, gpu_class), thousandths_text(binds.most, gpu_class)
    if binds.for_good:
        text = (
            f"{ask.size} is more than {binds.account} may hold at once: {most}.\n"
            f"Choose a smaller size, or ask your instructor for a larger share, {WITHOUT_GPU}"
        )
        return CourseLimit(text, details=details)
    held = _number(binds.held, gpu_class)
    if binds.kind == "institution":
        text = (
            f"{held} of the pool's {gpu_class} is in use, and the rest is guaranteed to other courses.\n"
            f"A slice comes back when someone shuts down a GPU kernel.\n"
            f"Try again in a minute, choose a smaller size, {WITHOUT_GPU}"
        )
        return PoolFull(text, retry_after=PATIENCE, details=details)
    soon = binds.kind == "course" and binds.asked <= binds.most - binds.held + binds.ending
    together = "" if binds.kind == "course" else ", all its courses together"
    those = "in the course" if binds.kind == "course" else f"in a course of {binds.account}"
    second = (
        f"{thousandths_text(binds.ending, gpu_class)} of it is just being given back."
        if soon
        else f"A slice comes back when someone {those} shuts down a GPU kernel."
    )
    text = (
        f"{binds.account} holds {held} of {most} now{together}; {asked} more would be over its limit.\n"
        f"{second}\nTry again in {'a few seconds' if soon else 'a minute'}, shut down a GPU kernel of yours, "
        f"{WITHOUT_GPU}"
    )
    return CourseLimit(text, retry_after=MOMENT if soon else PATIENCE, details=details)


def _no_share(course: str, gpu_class: str, shares: Mapping[str, int | None]) -> str:
    others = [
        gpu_name if most is None else thousandths_text(most, gpu_name)
        for gpu_name, most in sorted(shares.items())
        if most != 0
    ]
    return (
        f"{course} has no share of {gpu_class}.\n"
        + (
            f"It may hold {', '.join(others)} at once.\n"
            if others
            else "It has no share of any GPU class yet.\n"
        )
        + f"Ask your instructor for a share, {WITHOUT_GPU}"
    )


def pool_is_full(size: Size, facts: Sequence[Fact]) -> PoolFull:
    """Nothing that fits is free now."""
    full = [fact for fact in facts if isinstance(fact, TooFull)]
    silent = sum(isinstance(fact, ServerOut) and fact.why == "silent" for fact in facts)
    gpus, used = sum(fact.gpus for fact in full), sum(fact.used for fact in full)
    name = size.gpu_class or ANY_CLASS
    details: dict[str, Any] = {"gpu_class": size.gpu_class, "gpus": gpus, "silent": silent, "used": used}
    if not gpus:
        return PoolFull(
            f"No GPU server with {name} answers at the moment ({_count(silent, 'server')} out of reach).\n"
            "The pool's administrator can see this too.\n"
            f"Try again in a few minutes, {WITHOUT_GPU}",
            retry_after=PATIENCE,
            details=details,
        )
    in_use = thousandths_text(used, name).removesuffix(f" {name}")
    verb = "are" if name == ANY_CLASS and gpus != 1 else "is"
    if any(isinstance(fact, KeptByPromise | KeptBySeats) for fact in facts):
        what = "There is no room for it now"  # with much unused it is not full, but nothing of it may be had
    else:
        what = (
            "The pool is full"
            if not _out_of_service(facts)
            else "No server that takes new slices has room for it"
        )
    return PoolFull(
        f"{what}: {in_use} of {_count(gpus, name)} {verb} in use.\n{what_is_short(size, facts)}\n"
        f"Try again in a minute, choose a smaller size, {WITHOUT_GPU}",
        retry_after=PATIENCE,
        details=details,
    )


def what_is_short(size: Size, facts: Sequence[Fact]) -> str:
    """One sentence on why what is free does not do."""
    if any(isinstance(fact, KeptByPromise) for fact in facts):
        return "What is free is promised to others who asked earlier."
    if any(isinstance(fact, KeptBySeats) for fact in facts):
        return "What is free is kept for a class hour that begins before your lease could end."
    full = [fact for fact in facts if isinstance(fact, TooFull)]
    out = _out_of_service(facts)
    if size.whole_gpus is not None:
        empty = max((fact.empty for fact in full), default=0)
        needs = f"{size} needs {_count(size.count, size.gpu_class or ANY_CLASS)} on one server, each unused"
        return f"{needs}; {empty} at most are unused.{out}"
    best = max(full, key=lambda fact: (fact.best, fact.gpu_class))
    if min(best.best) <= 0:
        return f"No GPU {'that is open ' if out else ''}has anything left.{out}"
    free = thousandths_text(best.best[0], best.gpu_class)
    return f"The largest slice free on one GPU is {free} with {best.best[1]} MiB; {size} does not fit.{out}"


def _out_of_service(facts: Sequence[Fact]) -> str:
    """Where servers that answer take nothing, or nothing that lasts so long: how many."""
    closed = sum(isinstance(fact, ServerOut) and fact.why in ("cordoned", "draining") for fact in facts)
    ending = sum(isinstance(fact, ServerOut) and fact.why == "ending" for fact in facts)
    said = f" {_count(closed, 'server')} {'takes' if closed == 1 else 'take'} nothing new." if closed else ""
    if ending:
        said += f" {_count(ending, 'server')} will be gone before your lease could end."
    return said


def no_such_class(gpu_class: str, gpus: Sequence[Gpu]) -> NoSuchClass:
    """For who plans ahead, and does not stand before a list of kernels."""
    classes = _classes(gpus)
    return NoSuchClass(
        f"The pool has no {gpu_class}.\nIt has {_offer(classes)}.\nChoose one of these.",
        details={"gpu_class": gpu_class, "classes": list(classes)},
    )


def _offer(classes: Mapping[str, Sequence[Gpu]]) -> str:
    return ", ".join(f"{name} ({_count(len(group), 'GPU')})" for name, group in classes.items())


def unplaceable(size: Size, gpus: Sequence[Gpu]) -> Refused:
    """No GPU of this pool could ever hold it."""
    classes = _classes(gpus)
    if not classes:
        return NoSuchClass(
            "The pool has no GPU at the moment: no GPU server has joined it.\n"
            "The pool's administrator can see this too.\n"
            f"Try again later, {WITHOUT_GPU}",
            retry_after=PATIENCE,
            details={"classes": []},
        )
    if size.gpu_class is not None and size.gpu_class not in classes:
        return NoSuchClass(
            f"The pool has no {size.gpu_class}.\nIt has {_offer(classes)}.\n"
            f"Choose one of these, {WITHOUT_GPU}",
            details={"gpu_class": size.gpu_class, "classes": list(classes)},
        )
    group = [gpu for gpu in gpus if size.gpu_class in (None, gpu.gpu_class)]
    if size.whole_gpus is not None:
        most = max(sum(gpu.agent == agent for gpu in group) for agent in {gpu.agent for gpu in group})
        largest = f"The largest GPU server has {_count(most, size.gpu_class or ANY_CLASS)}."
        details: dict[str, Any] = {"largest": most, "asked": size.count}
    else:
        best = max(group, key=lambda gpu: (gpu.allocatable_mib, -gpu.id))
        largest = f"The largest GPU is a {best.gpu_class} with {best.allocatable_mib} MiB."
        details = {"largest_mib": best.allocatable_mib, "asked_mib": size.mib or 0}
    return SliceTooLarge(
        f"{size} is more than any GPU server of the pool can give at once.\n{largest}\n"
        f"Choose a smaller size, {WITHOUT_GPU}",
        details=details,
    )


def not_a_member(user: str, course: str, own: Iterable[str]) -> NotAMember:
    names = sorted(own)
    return NotAMember(
        f"{user} is not a member of {course}.\n{_own_courses(names)}\n"
        f"Ask the instructor of {course} to be added, {_for_own(names)}{WITHOUT_GPU}",
        details={"course": course, "courses": names},
    )


def not_of_course(user: str, course: str) -> NotAMember:
    """The same for who only looks at the course, or says what it may do."""
    return NotAMember(
        f"{user} is not a member of {course}.\nAsk the instructor of {course} to be added.",
        details={"course": course, "courses": []},
    )


def unknown_course(course: str, own: Iterable[str]) -> UnknownCourse:
    names = sorted(own)
    return UnknownCourse(
        f"There is no course {course} in the GPU pool.\n{_own_courses(names)}\n"
        f"Ask your instructor what it is called now, {_for_own(names)}{WITHOUT_GPU}",
        details={"course": course, "courses": names},
    )


def course_ambiguous(user: str, own: Iterable[str]) -> CourseAmbiguous:
    names = sorted(own)
    if not names:
        text = (
            f"{user} is in no course that has a share of the GPU pool.\n"
            f"Ask your instructor to be added to one, {WITHOUT_GPU}"
        )
    else:
        text = (
            f"{user} is in several courses: {', '.join(names)}.\n"
            "Say for which one the GPU is: choose it when you start your server."
        )
    return CourseAmbiguous(text, details={"courses": names})


def _for_own(names: Sequence[str]) -> str:
    """A kernel's course is that of its server, which keeps an old name until it is started anew."""
    return "stop your server and start it for one of yours, " if names else ""


def _own_courses(names: Sequence[str]) -> str:
    if not names:
        return "You are in no course that has a share of the GPU pool."
    return f"Your courses with a share of the GPU pool: {', '.join(names)}."


def _classes(gpus: Iterable[Gpu]) -> dict[str, list[Gpu]]:
    classes: dict[str, list[Gpu]] = {}
    for gpu in sorted(gpus, key=lambda gpu: (gpu.gpu_class, gpu.id)):
        classes.setdefault(gpu.gpu_class, []).append(gpu)
    return classes


def _number(thousandths: int, gpu_class: str) -> str:
    return thousandths_text(thousandths, gpu_class).removesuffix(f" {gpu_class}")


def _count(number: int, what: str) -> str:
    plural = "s" if what in (ANY_CLASS, "server") and number != 1 else ""
    return f"{number} {what}{plural}"
