"""Whose course a JupyterHub group is, and what its members are there: from the group's name, by patterns.

A pattern is a regular expression that the whole name must match, with a group ``course``, and the role that
the members have. The first pattern that matches counts. Presets name the groups of common course tools:

- ``plain``: ``ml101`` and ``ml101-instructors``;
- ``nbgrader``: ``nbgrader-ml101`` and ``formgrade-ml101``, as nbgrader makes them;
- ``lti``: ``lti-ml101-learner`` and ``lti-ml101-instructor``, as ``spawner/lti.py`` makes them of a launch;
- ``canvas``: ``course::ID`` and ``course::ID::enrollment_type::teacher``, as CanvasOAuthenticator makes them;
- ``e2x``: ``course.ID.course_owner`` and ``term.ID.TERM.student``, as e2x-hub-rbac reads them.

The *grading account* of ml101 is called ``ml101-grading``. It is no group's: those who teach ml101 belong to
it, and nobody else, whatever groups there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

STUDENT = "student"
INSTRUCTOR = "instructor"
ROLES = (STUDENT, INSTRUCTOR)
LONGEST_NAME = 255
GRADING = "-grading"
"""How the names of grading accounts end; no group stands for one."""

PRESETS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "plain": ((r"(?P<course>.+)-instructors", INSTRUCTOR), (r"(?P<course>.+)", STUDENT)),
    "nbgrader": ((r"formgrade-(?P<course>.+)", INSTRUCTOR), (r"nbgrader-(?P<course>.+)", STUDENT)),
    "lti": ((r"lti-(?P<course>.+)-instructor", INSTRUCTOR), (r"lti-(?P<course>.+)-learner", STUDENT)),
    "canvas": (
        (r"course::(?P<course>.+?)::enrollment_type::(teacher|ta|designer)", INSTRUCTOR),
        (r"course::(?P<course>.+?)(::enrollment_type::student)?", STUDENT),
    ),
    "e2x": (
        (r"course\.(?P<course>[^.]+)\.course_owner", INSTRUCTOR),
        (r"term\.(?P<course>[^.]+)\.[^.]+\.(instructor|teaching_assistant)", INSTRUCTOR),
        (r"term\.(?P<course>[^.]+)\.[^.]+\.student", STUDENT),
    ),
}


@dataclass(frozen=True, slots=True)
class Patterns:
    """What group names mean. Compared by its patterns, so that it may be a part of a frozen identity."""

    pairs: tuple[tuple[str, str], ...] = PRESETS["plain"]

    @classmethod
    def of(cls, configured: str | Sequence[object]) -> Patterns:
        """From a preset's name, or a list of presets' names and ``[pattern, role]`` pairs. Raises
        ``ValueError`` with what is wrong.
        """
        pairs: list[tuple[str, str]] = []
        for entry in [configured] if isinstance(configured, str) else configured:
            if isinstance(entry, str):
                if entry not in PRESETS:
                    raise ValueError(f"{entry!r} is no preset; there are {', '.join(PRESETS)}")
                pairs += PRESETS[entry]
            else:
                pairs.append(_pair(entry))
        if not pairs:
            raise ValueError("at least one preset or pattern is needed")
        return cls(tuple(pairs))

    def course_of(self, group: str) -> tuple[str, str] | None:
        """The course that a group stands for and its members' role; None where it stands for none."""
        found = _match(self.pairs, group)
        return None if found is None or graded_course(found[0]) is not None else found

    def roles(self, groups: Iterable[str]) -> dict[str, str]:
        """The role in each course that a user's groups stand for; an instructor's counts before a
        student's.
        """
        found: dict[str, str] = {}
        for group in groups:
            match = self.course_of(group)
            if match is not None and found.get(match[0]) != INSTRUCTOR:
                found[match[0]] = match[1]
        return found

    def teaches(self, groups: Iterable[str], course: str) -> bool:
        return self.roles(groups).get(graded_course(course) or course) == INSTRUCTOR

    def belongs(self, groups: Iterable[str], course: str) -> bool:
        return course in self.roles(groups) or self.teaches(groups, course)

    def grades(self, groups: Iterable[str]) -> list[str]:
        """The grading accounts of the courses that a user teaches."""
        return sorted(grading_account(c) for c, role in self.roles(groups).items() if role == INSTRUCTOR)


PLAIN = Patterns()


def grading_account(course: str) -> str:
    return course + GRADING


def graded_course(account: str) -> str | None:
    """The course whose grading account this is, by its name; None for every other account."""
    course = account.removesuffix(GRADING)
    return course if course and course != account else None


def _pair(entry: object) -> tuple[str, str]:
    if not isinstance(entry, Sequence) or len(entry) != 2 or not all(isinstance(part, str) for part in entry):
        raise ValueError(f"{entry!r} is neither a preset's name nor a pair of a pattern and a role")
    pattern, role = str(entry[0]), str(entry[1])
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"the pattern {pattern!r} cannot be read: {error}") from None
    if "course" not in compiled.groupindex:
        raise ValueError(f"the pattern {pattern!r} does not say which part is the course: (?P<course>...)")
    if role not in ROLES:
        raise ValueError(f"the role {role!r} of {pattern!r} must be one of {', '.join(ROLES)}")
    return pattern, role


@lru_cache(maxsize=65536)
def _match(pairs: tuple[tuple[str, str], ...], group: str) -> tuple[str, str] | None:
    if len(group) > LONGEST_NAME:
        return None
    for pattern, role in pairs:
        match = re.fullmatch(pattern, group)
        if match is not None and match["course"]:
            return match["course"], role
    return None
