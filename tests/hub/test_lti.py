"""LTI launches become groups; the claims are those of LTI 1.3's and 1.1's specifications."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpu_kernels.pool.policy.roles import Patterns
from spawner.lti import groups_after, groups_of_launch, join_course

CLAIM = "https://purl.imsglobal.org/spec/lti/claim/"
MEMBER = "http://purl.imsglobal.org/vocab/lis/v2/membership#"
PERSON = "http://purl.imsglobal.org/vocab/lis/v2/institution/person#"


def launch(course: object, *roles: str) -> dict[str, Any]:
    return {f"{CLAIM}context": {"id": course, "label": "ML"}, f"{CLAIM}roles": list(roles)}


@pytest.mark.parametrize(
    ("claims", "groups"),
    [
        (launch("4711", f"{MEMBER}Learner"), ["lti-4711-learner"]),
        (launch("4711", f"{MEMBER}Instructor"), ["lti-4711-instructor"]),
        (launch("4711", f"{PERSON}Instructor", f"{MEMBER}Learner"), ["lti-4711-learner"]),
        (
            launch("4711", "http://purl.imsglobal.org/vocab/lis/v2/membership/Instructor#TeachingAssistant"),
            ["lti-4711-instructor"],
        ),
        (launch("ML 101/a=b", f"{MEMBER}Learner"), ["lti-ML-101-a-b-learner"]),
        (launch(4711), ["lti-4711-learner"]),
        (launch("///"), []),
        (launch(None), []),
        ({"context_id": "c1", "roles": "Learner"}, ["lti-c1-learner"]),
        ({"context_id": "c1", "roles": "urn:lti:instrole:ims/lis/Instructor,Learner"}, ["lti-c1-learner"]),
        ({"context_id": "c1", "roles": "Learner,urn:lti:role:ims/lis/Instructor"}, ["lti-c1-instructor"]),
        ({"context_id": "c1"}, ["lti-c1-learner"]),
        ({}, []),
    ],
)
def test_a_launch_is_a_proof_of_one_role_in_one_course(claims: dict[str, Any], groups: list[str]) -> None:
    assert groups_of_launch(claims) == groups


def test_the_preset_reads_what_a_launch_makes() -> None:
    patterns = Patterns.of("lti")
    (learner,) = groups_of_launch(launch("ml-101", f"{MEMBER}Learner"))
    (teacher,) = groups_of_launch(launch("ml-101", f"{MEMBER}Instructor"))
    assert patterns.course_of(learner) == ("ml-101", "student")
    assert patterns.course_of(teacher) == ("ml-101", "instructor")


def test_other_courses_and_groups_stay_and_the_newest_role_counts() -> None:
    before = ["gpu-admins", "lti-1-learner", "lti-2-instructor"]
    assert groups_after(before, ["lti-2-learner"]) == ["gpu-admins", "lti-1-learner", "lti-2-learner"]
    assert groups_after(before, []) == before


def test_the_hook_keeps_what_else_the_login_says() -> None:
    user = SimpleNamespace(groups=[SimpleNamespace(name="lti-1-learner")])
    handler = SimpleNamespace(find_user={"ada": user}.get)
    model = {"name": "ada", "auth_state": launch("2", f"{MEMBER}Instructor")}
    assert join_course(None, handler, model) == {**model, "groups": ["lti-1-learner", "lti-2-instructor"]}
    assert join_course(None, handler, {"name": "new", "auth_state": None})["groups"] == []
