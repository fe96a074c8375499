"""Which course a server is charged to. Pure: groups in, a course or a refusal out."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from html import escape

from jupyterhub.spawner import SpawnException

from gpu_kernels.vocabulary.roles import PLAIN, Patterns

NO_COURSE = ""
"""What a person chooses to start a server that cannot have a GPU."""


def courses_of(
    groups: Iterable[str], *, known: Collection[str] = (), patterns: Patterns = PLAIN
) -> list[str]:
    """The courses that a member of `groups` may charge, in alphabetical order.

    Instructors may use their own course. With `known`, other groups are no courses. `patterns`: what the
    names of groups mean.
    """
    return sorted(course for course in patterns.roles(groups) if not known or course in known)


def choose_course(courses: list[str], wanted: object) -> str:
    """The course of a server that starts: `wanted` (from user options; None if not said), or the only one.

    Returns NO_COURSE for a person in no course, who may have a server without GPUs.
    Raises SpawnException, with a text for that person, when the choice is theirs to make or was not theirs.
    """
    if wanted is None:
        if len(courses) > 1:
            raise _refusal(
                f"You are in several courses: {', '.join(courses)}. Choose the one that this server's GPUs "
                "are charged to, on the page that starts a server.",
                reason="course_not_chosen",
            )
        return courses[0] if courses else NO_COURSE
    if not isinstance(wanted, str):
        raise _refusal("The course must be given as text, for example ml101.", reason="course_malformed")
    if wanted == NO_COURSE or wanted in courses:
        return wanted
    yours = f"Your courses: {', '.join(courses)}." if courses else "You are in no course."
    raise _refusal(
        f"You are not in the course {wanted[:60]!r}. {yours} "
        "Start the server for one of yours, or ask the instructor to add you.",
        reason="course_not_yours",
    )


def options_form(courses: list[str], remembered: object = None) -> str:
    """The form for people who have a choice to make; empty for all others, whose servers start at once.

    A remembered course that is theirs no longer is a choice to make: without the form it would be refused
    at each start, with no way to say another.
    """
    stale = isinstance(remembered, str) and remembered != NO_COURSE and remembered not in courses
    if len(courses) < 2 and not stale:
        return ""
    options = [(course, course) for course in courses] + [(NO_COURSE, "none (a server without GPUs)")]
    rows = "\n".join(
        f'<option value="{escape(value)}"{" selected" if value == remembered else ""}>{escape(text)}</option>'
        for value, text in options
    )
    return (
        '<label for="course" class="form-label">Course that GPUs are charged to</label>\n'
        f'<select name="course" id="course" class="form-select">\n{rows}\n</select>'
    )


def told_of_course(course: str) -> str:
    """What the page that waits for a server says of its GPUs."""
    if course == NO_COURSE:
        return "This server will have no GPUs: you are in no course that has any, or chose none."
    return f"GPUs are charged to {course}. Each GPU kernel takes a slice of its own; the server takes none."


def course_in_form(form: dict[str, list[str]]) -> dict[str, str]:
    """What the form says of the course, as user options."""
    values = form.get("course")
    return {"course": values[0]} if values else {}


def _refusal(message: str, reason: str) -> SpawnException:
    refusal = SpawnException(message, reason=reason, status_code=403)
    refusal.jupyterhub_message = message  # the page with the form would show the exception's repr
    return refusal
