"""What a student reads when a rule stands against a request: what, how much, until when, what to do now."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from gpu_kernels.errors import BudgetSpent, CoursePaused, Refused, SizeLimit, TooMany
from gpu_kernels.pool.policy.model import RuleBinds
from gpu_kernels.pool.policy.refusals import WITHOUT_GPU
from gpu_kernels.units import ANY_CLASS, Size, thousandths_text
from gpu_kernels.vocabulary.rules import hours_text, instant

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def refusal(binds: RuleBinds, size: Size, now: int, zone: ZoneInfo) -> Refused:
    """The error for who asked, of a rule that stands against it."""
    details: dict[str, Any] = {
        "rule": binds.rule,
        "course": binds.account,
        "has": binds.has,
        "most": binds.most,
        "until": None if binds.until is None else instant(binds.until),
    }
    if binds.rule == "paused":
        return CoursePaused(_paused(binds), details=details)
    if binds.rule == "sizes":
        return SizeLimit(_not_on_offer(binds, size), details={**details, "sizes": binds.says})
    if binds.rule == "max_size":
        return SizeLimit(_too_large(binds, size), details={**details, "gpu_class": binds.gpu_class})
    if binds.rule == "max_leases":
        return TooMany(_too_many(binds), details=details)
    retry_after = None if binds.until is None else max(1.0, (binds.until - now) / 1000)
    return BudgetSpent(_spent(binds, zone), retry_after=retry_after, details=details)


def _paused(binds: RuleBinds) -> str:
    return (
        f"{binds.account} gives out no GPUs at the moment: {binds.says}\n"
        f"Kernels that have one keep it. Ask your instructor when it gives out GPUs again, {WITHOUT_GPU}"
    )


def _not_on_offer(binds: RuleBinds, size: Size) -> str:
    if not binds.says:
        return (
            f"{binds.account} offers no GPUs: its list of sizes is empty.\n"
            f"Ask your instructor for {size}, {WITHOUT_GPU}"
        )
    return (
        f"{size} is not on offer in {binds.account}, which has {binds.says}.\n"
        f"Choose one of these, ask your instructor for {size}, {WITHOUT_GPU}"
    )


def _too_large(binds: RuleBinds, size: Size) -> str:
    most = thousandths_text(int(binds.most), binds.gpu_class or ANY_CLASS)
    if binds.most == 0:
        return (
            f"No lease of {binds.account} may use {binds.gpu_class}.\n"
            f"Choose another GPU class, ask your instructor, {WITHOUT_GPU}"
        )
    return (
        f"{size} is more than one lease of {binds.account} may have: {most} at most.\n"
        f"Choose a smaller size, or ask your instructor for a larger one, {WITHOUT_GPU}"
    )


def _too_many(binds: RuleBinds) -> str:
    if binds.most == 0:
        return (
            f"{binds.account} takes no GPU kernels at the moment: its limit for each user is 0.\n"
            f"Ask your instructor when it does, {WITHOUT_GPU}"
        )
    kernels = "1 GPU kernel" if binds.has == 1 else f"{binds.has:g} GPU kernels"
    return (
        f"You have {kernels} in {binds.account}; {binds.most:g} at once is the limit for each user.\n"
        "Another one can start as soon as you have shut one down.\n"
        f"Shut one down and try again, {WITHOUT_GPU}"
    )


def _spent(binds: RuleBinds, zone: ZoneInfo) -> str:
    whose = (
        f"The GPU budget of {binds.account}"
        if binds.whose == "course"
        else f"Your GPU budget in {binds.account}"
    )
    hours = "hour" if binds.window == 1 else f"{binds.window} hours"
    span = "this week" if binds.window is None else f"in the last {hours}"
    lines = [f"{whose} is used up: {hours_text(binds.has)} of {hours_text(binds.most)} GPU-hours {span}."]
    if binds.until is not None:
        when = wall_clock(binds.until, zone)
        renewed = "It resets on" if binds.window is None else "Part of it is available again from"
        lines.append(f"{renewed} {when}.")
        lines.append(f"Try again then, ask your instructor for a larger one, {WITHOUT_GPU}")
    else:
        lines.append(f"Ask your instructor for one, {WITHOUT_GPU}")
    return "\n".join(lines)


def wall_clock(at: int, zone: ZoneInfo) -> str:
    """An instant for people, by the institution's clocks: ``Mon 23 Nov 2026, 00:00 (Europe/Berlin)``."""
    local = datetime.fromtimestamp(at / 1000, zone)
    day = f"{DAYS[local.weekday()]} {local.day} {MONTHS[local.month - 1]} {local.year}"
    return f"{day}, {local.hour:02d}:{local.minute:02d} ({zone.key})"
