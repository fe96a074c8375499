"""From a login to a role in a course: LTI launches and nbgrader's groups, through a real hub to the pool."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from gpu_kernels.pool.service.authentication import HubTokens
from gpu_kernels.pool.service.identity import Identity
from gpu_kernels.vocabulary.roles import Patterns
from tests.hub.test_lti import MEMBER, launch
from tests.hub.test_token_rights import ANSWERS_WITHIN_S, SERVICE, Hub

pytestmark = [pytest.mark.hub, pytest.mark.timeout(300)]

LAUNCHES = """
import json
from gpu_kernels.spawner import lti

class Launches(DummyAuthenticator):
    # The claims come with the form; jupyterhub-ltiauthenticator takes them from a signed launch.
    async def authenticate(self, handler, data):
        return {"name": data["username"], "auth_state": json.loads(data["password"])}

c.JupyterHub.authenticator_class = Launches
c.Authenticator.manage_groups = True
c.Authenticator.enable_auth_state = True
c.CryptKeeper.keys = ["00" * 32]
c.Authenticator.post_auth_hook = lti.joins(plain="")  # these launches do not say which platform they are of
c.JupyterHub.load_groups = {}
c.JupyterHub.load_roles = [
    {"name": "tests", "services": ["tests"], "scopes": ["admin:users", "tokens", "admin:groups"]},
]
"""
NBGRADER = {"nbgrader-ds200": "ada", "formgrade-ds200": "iris"}
"""Made by people, or by nbgrader itself, through the hub's API."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("launches"), LAUNCHES)
    for group, user in NBGRADER.items():
        hub.token(user)
        hub.call("POST", f"/groups/{group}")
        hub.call("POST", f"/groups/{group}/users", users=[user])
    yield hub
    hub.close()


@pytest.fixture
async def identify(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Somebody as the pool sees them, where group names mean what a preset says."""
    monkeypatch.setenv("JUPYTERHUB_API_URL", hub.api)
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", SERVICE)
    monkeypatch.setenv("JUPYTERHUB_SERVICE_NAME", "tests")
    tokens = HubTokens()

    async def identify(name: str, preset: str) -> Identity:
        identity = await tokens.identify(hub.token(name))
        assert identity is not None
        return replace(identity, patterns=Patterns.of(preset))

    return identify


def log_in(hub: Hub, name: str, claims: dict[str, Any]) -> None:
    """As a browser that comes from the learning platform."""
    base = hub.api.removesuffix("/api")
    with httpx.Client(trust_env=False, timeout=ANSWERS_WITHIN_S) as browser:
        form = browser.get(f"{base}/login").text
        xsrf = re.search(r'name="_xsrf" value="([^"]+)"', form)
        assert xsrf is not None
        data = {"username": name, "password": json.dumps(claims), "_xsrf": xsrf[1]}
        answer = browser.post(f"{base}/login", data=data)
        assert answer.status_code == 302, answer.text


async def test_a_launch_makes_a_learner_and_the_next_one_an_assistant(hub: Hub, identify: Any) -> None:
    log_in(hub, "ben", launch("4711", f"{MEMBER}Learner"))
    ben = await identify("ben", "lti")
    assert (ben.belongs_to("4711"), ben.teaches("4711")) == (True, False)
    log_in(hub, "ben", launch("4712", f"{MEMBER}Learner"))
    assistant = "http://purl.imsglobal.org/vocab/lis/v2/membership/Instructor#TeachingAssistant"
    log_in(hub, "ben", launch("4711", assistant))
    ben = await identify("ben", "lti")
    assert (ben.teaches("4711"), ben.teaches("4711-grading")) == (True, True)
    assert (ben.belongs_to("4712"), ben.teaches("4712")) == (True, False)


async def test_a_course_of_the_platform_is_nobodys_grading_account(hub: Hub, identify: Any) -> None:
    log_in(hub, "eve", launch("4711-grading", f"{MEMBER}Instructor"))
    eve = await identify("eve", "lti")
    assert eve.groups >= {"lti-4711-grading-instructor"}
    assert not eve.belongs_to("4711-grading")
    assert not eve.teaches("4711")


async def test_nbgraders_groups_are_students_and_instructors_of_its_course(identify: Any) -> None:
    ada, iris = await identify("ada", "nbgrader"), await identify("iris", "nbgrader")
    assert (ada.belongs_to("ds200"), ada.teaches("ds200")) == (True, False)
    assert (iris.teaches("ds200"), iris.belongs_to("ds200-grading")) == (True, True)


async def test_a_login_that_is_no_launch_leaves_what_the_tools_made(hub: Hub, identify: Any) -> None:
    log_in(hub, "ada", {})
    assert (await identify("ada", "nbgrader")).belongs_to("ds200")
