"""What the names of groups say, in the words of each course tool."""

from __future__ import annotations

import pytest

from gpu_kernels.errors import CourseAmbiguous, NotAMember, UnknownCourse
from gpu_kernels.pool.policy.charging import choose_course
from gpu_kernels.vocabulary.roles import PLAIN, PRESETS, Patterns

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("preset", "group", "meaning"),
    [
        ("plain", "ml101", ("ml101", "student")),
        ("plain", "ml101-instructors", ("ml101", "instructor")),
        ("plain", "-instructors", ("-instructors", "student")),
        ("nbgrader", "nbgrader-ml101", ("ml101", "student")),
        ("nbgrader", "formgrade-ml101-2026", ("ml101-2026", "instructor")),
        ("nbgrader", "ml101", None),
        ("lti", "lti-ml-101-learner", ("ml-101", "student")),
        ("lti", "lti-ml-101-instructor", ("ml-101", "instructor")),
        ("lti", "lti-ml101", None),
        ("canvas", "course::1555635", ("1555635", "student")),
        ("canvas", "course::1555635::enrollment_type::teacher", ("1555635", "instructor")),
        ("canvas", "course::1555635::enrollment_type::ta", ("1555635", "instructor")),
        ("canvas", "course::1555635::enrollment_type::student", ("1555635", "student")),
        ("canvas", "course::CRS:MATH-98-2021-C::enrollment_type::ta", ("CRS:MATH-98-2021-C", "instructor")),
        ("canvas", "account::7::group::x", None),
        ("e2x", "course.ml101.course_owner", ("ml101", "instructor")),
        ("e2x", "term.ml101.ws26.teaching_assistant", ("ml101", "instructor")),
        ("e2x", "term.ml101.ws26.student", ("ml101", "student")),
        ("e2x", "term.ml101.ws26.observer", None),
        ("plain", "x" * 300, None),
    ],
)
def test_presets(preset: str, group: str, meaning: tuple[str, str] | None) -> None:
    assert Patterns.of(preset).course_of(group) == meaning


def test_an_instructor_in_the_course_group_too_is_an_instructor() -> None:
    for groups in (["ml101", "ml101-instructors"], ["ml101-instructors", "ml101"]):
        assert PLAIN.roles(groups) == {"ml101": "instructor"}
        assert PLAIN.teaches(groups, "ml101")
        assert PLAIN.belongs(groups, "ml101")
    assert not PLAIN.teaches(["ml101"], "ml101")


def test_presets_and_own_patterns_go_together() -> None:
    patterns = Patterns.of([[r"staff-of-(?P<course>\w+)", "instructor"], "nbgrader"])
    assert patterns.roles(["staff-of-ml", "nbgrader-ds", "other"]) == {"ml": "instructor", "ds": "student"}


@pytest.mark.parametrize(
    ("configured", "why"),
    [
        ("moodle", "'moodle' is no preset; there are plain, nbgrader"),
        ([], "at least one"),
        ([["(", "student"]], "cannot be read"),
        ([["x-.+", "student"]], "which part is the course"),
        ([["(?P<course>.+)", "boss"]], "must be one of student, instructor"),
        ([7], "neither a preset's name nor a pair"),
    ],
)
def test_bad_patterns_are_refused_at_the_start(configured: object, why: str) -> None:
    with pytest.raises(ValueError, match=why.replace("(", r"\(")):
        Patterns.of(configured)  # type: ignore[arg-type]


def test_every_preset_has_students_and_instructors() -> None:
    for pairs in PRESETS.values():
        assert {role for _, role in pairs} == {"student", "instructor"}


def test_the_course_of_a_request() -> None:
    known = {"ml101", "ds200", "film"}
    groups = ["nbgrader-ml101", "formgrade-ds200", "nbgrader-gone"]
    patterns = Patterns.of("nbgrader")
    assert choose_course("ada", groups, "ds200", known, patterns) == "ds200"
    assert choose_course("ada", groups[:1], None, known, patterns) == "ml101"
    with pytest.raises(CourseAmbiguous, match="ds200, ml101"):
        choose_course("ada", groups, None, known, patterns)
    with pytest.raises(CourseAmbiguous, match="in no course"):
        choose_course("ada", ["ml101"], None, known, patterns)
    with pytest.raises(NotAMember):
        choose_course("ada", groups, "film", known, patterns)
    with pytest.raises(UnknownCourse):
        choose_course("ada", groups, "gone", known, patterns)
