"""LTI launches become groups; the claims are those of LTI 1.3's and 1.1's specifications."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import orm
from jupyterhub.auth import Authenticator

from gpu_kernels.spawner.lti import groups_after, groups_of_launch, join_course, joins
from gpu_kernels.vocabulary.roles import Patterns

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
    """As on the one platform whose courses are called by their ids."""
    assert groups_of_launch(claims, plain="") == groups


IDS = ["ml-101", "ml 101", "ml/101", "-ml-101", "x" * 100, "x" * 101, "x" * 102, "ml-101-0123456789abcdef"]


def test_two_courses_are_never_one_here_of_whichever_platforms() -> None:
    """Two platforms may have the same ids, and one may choose its ids to look like the other's names."""
    platforms = [
        ("https://a.org", "1"),
        ("https://a.org", "2"),
        ("https://b.org", "1"),
        ("https://a.org 1", ""),
    ]
    seen = {
        group
        for issuer, deployment in platforms
        for course in [*IDS, *taken()]
        for group in groups_of_launch(from_platform(course, issuer, deployment), plain="https://a.org 1")
    }
    assert len(seen) == len(platforms) * (len(IDS) + len(taken()))


def from_platform(course: str, issuer: str, deployment: str) -> dict[str, Any]:
    return {**launch(course, f"{MEMBER}Learner"), "iss": issuer, f"{CLAIM}deployment_id": deployment}


def taken() -> list[str]:
    """The names that courses of another platform have here, as ids."""
    names = [groups_of_launch(from_platform(course, "https://c.org", "1"))[0] for course in IDS]
    return [name.removeprefix("lti-").removesuffix("-learner") for name in names]


def test_a_course_of_another_platform_with_the_same_id_is_another_course() -> None:
    """The attack: an instructor of 4711 there would teach 4711 here."""
    ours, theirs = (
        groups_of_launch(from_platform("4711", issuer, "1"))
        for issuer in ("https://ours.org", "https://theirs.org")
    )
    assert ours != theirs
    assert Patterns.of("lti").course_of(ours[0]) != Patterns.of("lti").course_of(theirs[0])


def test_the_one_platform_there_was_keeps_the_names_of_its_courses() -> None:
    kept = groups_of_launch(from_platform("4711", "https://ours.org", "1"), plain="https://ours.org 1")
    assert kept == ["lti-4711-learner"]
    other = groups_of_launch(from_platform("4711", "https://theirs.org", "1"), plain="https://ours.org 1")
    assert other != kept


def test_of_lti_1_1_the_key_that_signed_counts_and_not_what_a_platform_calls_itself() -> None:
    claims = {"context_id": "c1", "roles": "Learner", "tool_consumer_instance_guid": "ours.org"}
    handler = SimpleNamespace(
        find_user={}.get, request=SimpleNamespace(arguments={"oauth_consumer_key": [b"key-of-theirs"]})
    )
    model = {"name": "new", "auth_state": claims}
    as_ours = joins(plain="ours.org")(None, handler, model)["groups"]
    assert as_ours != ["lti-c1-learner"]
    assert joins(plain="key-of-theirs")(None, handler, model)["groups"] == ["lti-c1-learner"]


def test_the_preset_reads_what_a_launch_makes() -> None:
    patterns = Patterns.of("lti")
    (learner,) = groups_of_launch(launch("ml-101", f"{MEMBER}Learner"), plain="")
    (teacher,) = groups_of_launch(launch("ml-101", f"{MEMBER}Instructor"), plain="")
    assert patterns.course_of(learner) == ("ml-101", "student")
    assert patterns.course_of(teacher) == ("ml-101", "instructor")
    (learner,) = groups_of_launch(from_platform("ml-101", "https://a.org", "1"))
    course = patterns.course_of(learner)
    assert course is not None
    assert (course[0].rpartition("-")[0], course[1]) == ("ml-101", "student")


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
    authenticator = LaunchAuthenticator(allow_all=True, manage_groups=True, post_auth_hook=joins(plain=""))
    login = await authenticator.get_authenticated_user(handler, launch("2", f"{MEMBER}Instructor"))
    assert login["groups"] == ["gpu-admins", "lti-1-learner", "lti-2-instructor"]
    login = await authenticator.get_authenticated_user(handler, {})
    assert login["groups"] == ["gpu-admins", "lti-1-learner"], "a launch from no course changes nothing"
    database.close()


def test_a_new_person_without_claims_is_in_no_group() -> None:
    handler = SimpleNamespace(find_user={}.get)
    assert join_course(None, handler, {"name": "new", "auth_state": None})["groups"] == []
