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
from gpu_kernels.pool.policy.model import Ask, Course, Gpu
from gpu_kernels.units import ANY_CLASS, Size, thousandths_text

WITHOUT_GPU = "or choose 'Python 3' to work without a GPU."
PATIENCE = 30.0
"""Seconds after which asking again is worth while; slices come back when others stop their kernels."""
MOMENT = 2.0
"""Seconds within which an agent that answers has confirmed the end of a lease."""


def course_limit(
    ask: Ask, course: Course, demands: Mapping[str, int], *, ending: bool = False
) -> CourseLimit:
    """The course's limit stands against it. ``ending``: what stands against it is just being given back."""
    gpu_class = min(demands, key=lambda c: (demands[c] - course.limit.get(c, 0), c))
    limit = course.limit.get(gpu_class, 0)
    held = course.settled.get(gpu_class, 0) + course.ending.get(gpu_class, 0)
    details: dict[str, Any] = {
        "course": course.name,
        "gpu_class": gpu_class,
        "held": held,
        "ending": course.ending.get(gpu_class, 0),
        "limit": limit,
        "asked": demands[gpu_class],
    }
    retry_after: float | None = PATIENCE
    if limit == 0:
        shares = ", ".join(thousandths_text(v, c) for c, v in sorted(course.limit.items()) if v)
        lines = [
            f"{course.name} has no share of {gpu_class}.",
            f"It may hold {shares} at once." if shares else "It may hold no GPU at all as yet.",
            f"Ask your instructor for a share, {WITHOUT_GPU}",
        ]
        retry_after = None
    elif demands[gpu_class] > limit:
        lines = [
            f"{ask.size} is more than {course.name} may hold at once: {thousandths_text(limit, gpu_class)}.",
            f"Choose a smaller size, or ask your instructor for a larger share, {WITHOUT_GPU}",
        ]
        retry_after = None
    else:
        held_text = thousandths_text(held, gpu_class).removesuffix(f" {gpu_class}")
        asked = thousandths_text(demands[gpu_class], gpu_class)
        freed = thousandths_text(details["ending"], gpu_class)
        lines = [
            f"{course.name} holds {held_text} of {thousandths_text(limit, gpu_class)} now; "
            f"{asked} more would be over its limit.",
            f"{freed} of it is just being given back."
            if ending
            else "A slice comes back when someone in the course shuts down a GPU kernel.",
            f"Try again in {'a few seconds' if ending else 'a minute'}, shut down a GPU kernel of yours, "
            f"{WITHOUT_GPU}",
        ]
        retry_after = MOMENT if ending else PATIENCE
    return CourseLimit("\n".join(lines), retry_after=retry_after, details=details)


def pool_full(size: Size, gpus: Sequence[Gpu], *, queued: bool = False) -> PoolFull:
    """Nothing that fits is free now. ``queued``: what is free is promised to requests that came earlier."""
    of_class = [gpu for gpu in gpus if size.gpu_class in (None, gpu.gpu_class)]
    answering = [gpu for gpu in of_class if gpu.answering]
    name = size.gpu_class or ANY_CLASS
    details: dict[str, Any] = {
        "gpu_class": size.gpu_class,
        "gpus": len(answering),
        "silent": len(of_class) - len(answering),
        "used": sum(gpu.used_thousandths for gpu in answering),
    }
    if not answering:
        return PoolFull(
            f"No GPU server with {name} answers at the moment ({_count(len(of_class), name)} out of reach).\n"
            "Whoever runs the pool can see this too.\n"
            f"Try again in a few minutes, {WITHOUT_GPU}",
            retry_after=PATIENCE,
            details=details,
        )
    used = thousandths_text(details["used"], name).removesuffix(f" {name}")
    if queued:
        second = "What is free is promised to others who asked earlier."
    elif size.whole_gpus is not None:
        empty = sum(gpu.empty for gpu in answering)
        second = f"{size} needs {_count(size.count, name)} on one server, each unused; {empty} are unused."
    else:
        best = max(answering, key=lambda gpu: (min(gpu.free_thousandths, _memory_share(gpu)), -gpu.id))
        free = thousandths_text(best.free_thousandths, best.gpu_class)
        second = f"The largest slice free on one GPU is {free} with {best.free_mib} MiB; {size} does not fit."
    return PoolFull(
        f"The pool is full: {used} of {_count(len(answering), name)} is in use.\n"
        f"{second}\n"
        f"Try again in a minute, choose a smaller size, {WITHOUT_GPU}",
        retry_after=PATIENCE,
        details=details,
    )


def _memory_share(gpu: Gpu) -> int:
    return gpu.free_mib * 1000 // gpu.allocatable_mib


def unplaceable(size: Size, gpus: Sequence[Gpu]) -> Refused:
    """No GPU of this pool could ever hold it."""
    classes = _classes(gpus)
    offer = ", ".join(f"{name} ({_count(len(group), 'GPU')})" for name, group in classes.items())
    if not classes:
        return NoSuchClass(
            "The pool has no GPU at the moment: no GPU server has joined it.\n"
            "Whoever runs the pool can see this too.\n"
            f"Try again later, {WITHOUT_GPU}",
            retry_after=PATIENCE,
            details={"classes": []},
        )
    if size.gpu_class is not None and size.gpu_class not in classes:
        return NoSuchClass(
            f"The pool has no {size.gpu_class}.\nIt has {offer}.\nChoose one of these, {WITHOUT_GPU}",
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
        f"Ask the instructor of {course} to be added, {WITHOUT_GPU}",
        details={"course": course, "courses": names},
    )


def unknown_course(course: str, own: Iterable[str]) -> UnknownCourse:
    names = sorted(own)
    return UnknownCourse(
        f"There is no course {course} in the GPU pool.\n{_own_courses(names)}\n"
        f"Choose one of yours, {WITHOUT_GPU}",
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


def _own_courses(names: Sequence[str]) -> str:
    if not names:
        return "You are in no course that has a share of the GPU pool."
    return f"Your courses with a share of the GPU pool: {', '.join(names)}."


def _classes(gpus: Iterable[Gpu]) -> dict[str, list[Gpu]]:
    classes: dict[str, list[Gpu]] = {}
    for gpu in sorted(gpus, key=lambda gpu: (gpu.gpu_class, gpu.id)):
        classes.setdefault(gpu.gpu_class, []).append(gpu)
    return classes


def _count(number: int, what: str) -> str:
    plural = "s" if what == ANY_CLASS and number != 1 else ""
    return f"{number} {what}{plural}"
