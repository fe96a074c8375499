"""What a course may still take."""

from __future__ import annotations

from dataclasses import replace

from gpu_kernels.pool.policy.model import Ask, Course, Placement


def room(course: Course, ask: Ask, gpu_class: str, *, count_ending: bool = True) -> int:
    """Thousandths of the class that the ask may take within its course's limit.

    A lease that replaces another counts only for what it is larger, and may always be as large as that one,
    even where the limit was lowered since. A class without a limit is one the course has no share of.
    """
    held = course.settled.get(gpu_class, 0)
    if count_ending:
        held += course.ending.get(gpu_class, 0)
    free = course.limit.get(gpu_class, 0) - held
    replaced = ask.replaces.get(gpu_class, 0)
    return replaced + max(0, free) if replaced else free


def charged(course: Course, ask: Ask, placement: Placement) -> Course:
    """The course after the ask got its placement."""
    gpu_class = placement.gpu_class
    more = max(0, placement.thousandths - ask.replaces.get(gpu_class, 0))
    return replace(course, settled={**course.settled, gpu_class: course.settled.get(gpu_class, 0) + more})
