"""LTI launches become groups; the claims are those of LTI 1.3's and 1.1's specifications."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import orm
from jupyterhub.auth import Authenticator

from gpu_kernels.pool.policy.roles import Patterns
from spawner.lti import groups_after, groups_of_launch, join_course

pytestmark = pytest.mark.quick

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
        (launch("ML 101/a=b", f"{MEMBER}Learner"), ["lti-ML-101-a-b-63ab5344-learner"]),
        (launch("a-b-c8687a08", f"{MEMBER}Learner"), ["lti-a-b-c8687a08-315128a4-learner"]),
        (
            launch("4711", "http://purl.imsglobal.org/vocab/lis/v2/membership/Learner#Instructor"),
            ["lti-4711-learner"],
        ),
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


def test_two_courses_of_the_platform_are_never_one_here() -> None:
    ids = ["ml-101", "ml 101", "ml/101", "-ml-101", "x" * 100, "x" * 101, "x" * 102]
    assert len({tuple(groups_of_launch(launch(course))) for course in ids}) == len(ids)


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


class LaunchAuthenticator(Authenticator):
    """Logs people in by the claims of their launch, as jupyterhub-ltiauthenticator does."""

    async def authenticate(self, handler: Any, data: dict[str, Any]) -> dict[str, Any]:
        return {"name": "ada", "auth_state": data}


async def test_a_launch_through_the_hubs_own_login_joins_the_course_and_leaves_the_others() -> None:
    database = orm.new_session_factory("sqlite:///:memory:")()
    ada = orm.User(name="ada", groups=[orm.Group(name="lti-1-learner"), orm.Group(name="gpu-admins")])
    database.add(ada)
    database.commit()
    handler = SimpleNamespace(find_user=lambda name: orm.User.find(database, name))
    authenticator = LaunchAuthenticator(allow_all=True, manage_groups=True, post_auth_hook=join_course)
    login = await authenticator.get_authenticated_user(handler, launch("2", f"{MEMBER}Instructor"))
    assert login["groups"] == ["gpu-admins", "lti-1-learner", "lti-2-instructor"]
    login = await authenticator.get_authenticated_user(handler, {})
    assert login["groups"] == ["gpu-admins", "lti-1-learner"], "a launch from no course changes nothing"
    database.close()


def test_a_new_person_without_claims_is_in_no_group() -> None:
    handler = SimpleNamespace(find_user={}.get)
    assert join_course(None, handler, {"name": "new", "auth_state": None})["groups"] == []
