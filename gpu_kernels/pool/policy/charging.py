"""Which course a request is charged to."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gpu_kernels.pool.policy.refusals import course_ambiguous, not_a_member, unknown_course
from gpu_kernels.vocabulary.roles import PLAIN, Patterns


def choose_course(
    user: str, groups: Iterable[str], wanted: str | None, known: Collection[str], patterns: Patterns = PLAIN
) -> str:
    """The course that a request is charged to: the one wanted, or the only one that the user is in.

    A grading account is charged only where it is wanted by name. ``known``: the courses that there are.
    Raises ``UnknownCourse``, ``NotAMember``, or ``CourseAmbiguous``.
    """
    own = sorted(name for name in patterns.roles(groups) if name in known)
    if wanted is None:
        if len(own) != 1:
            raise course_ambiguous(user, own)
        return own[0]
    if wanted in own or (wanted in known and wanted in patterns.grades(groups)):
        return wanted
    if wanted not in known:
        raise unknown_course(wanted, own)
    raise not_a_member(user, wanted, own)
