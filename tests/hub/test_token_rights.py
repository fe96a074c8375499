"""What a real hub says of a token, and what the pool makes of it: an admin's notebook is no pool admin."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gpu_kernels.pool.service.authentication import HubTokens
from gpu_kernels.pool.service.identity import ADMIN_POOL, ADMIN_QUOTA, READ_USAGE, USE, Identity
from gpu_kernels.spawner.ports import free_port

pytestmark = [pytest.mark.hub, pytest.mark.timeout(300)]

SERVICE = "token-of-the-service-that-tests"
ANSWERS_WITHIN_S = 60.0
CONFIGURATION = """
from jupyterhub.auth import DummyAuthenticator
from jupyterhub.proxy import Proxy

class NoProxy(Proxy):
    should_start = False
    async def add_route(self, routespec, target, data): pass
    async def delete_route(self, routespec): pass
    async def get_all_routes(self): return {{}}

c.JupyterHub.proxy_class = NoProxy
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{port}/hub/"
c.JupyterHub.bind_url = "http://127.0.0.1:{port}/"
c.JupyterHub.authenticator_class = DummyAuthenticator
c.Authenticator.allow_all = True
c.Authenticator.admin_users = {{"adam"}}
c.JupyterHub.load_groups = {{"gpu-admins": {{"users": ["gina"]}}}}
c.JupyterHub.custom_scopes = {{
    "custom:gpu:use": {{"description": "use"}},
    "custom:gpu:admin:pool": {{"description": "administer"}},
    "custom:gpu:agent": {{"description": "speak for a GPU server"}},
}}
c.JupyterHub.extra_user_scopes = {{"custom:gpu:use!user"}}
c.JupyterHub.load_roles = [
    {{"name": "gpu-admins", "groups": ["gpu-admins"], "scopes": ["custom:gpu:admin:pool"]}},
    {{"name": "by-name", "services": ["gpu1"], "scopes": ["custom:gpu:agent"]}},
    {{"name": "by-filter", "services": ["machines"], "scopes": ["custom:gpu:agent!server=gpu2"]}},
    {{"name": "tests", "services": ["tests"], "scopes": ["admin:users", "tokens"]}},
]
c.JupyterHub.services = [
    {{"name": "tests", "api_token": "{service}"}},
    {{"name": "gpu1", "api_token": "token-of-gpu1"}},
    {{"name": "machines", "api_token": "token-of-machines"}},
]
"""


class Hub:
    def __init__(self, folder: Path, more: str = "") -> None:
        """``more``: lines of configuration beside those above."""
        port = free_port()
        self.api = f"http://127.0.0.1:{port}/hub/api"
        (folder / "config.py").write_text(CONFIGURATION.format(port=port, service=SERVICE) + more)
        with (folder / "log").open("wb") as log:
            command = [sys.executable, "-m", "jupyterhub", "--config", "config.py"]
            self.process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        self._client = httpx.Client(
            headers={"Authorization": f"token {SERVICE}"}, trust_env=False, timeout=ANSWERS_WITHIN_S
        )
        end = time.monotonic() + 100
        while not self._answers():
            assert self.process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < end, (folder / "log").read_text()
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            return self._client.get(f"{self.api}/").is_success
        except httpx.TransportError:
            return False

    def token(self, user: str, **fields: Any) -> str:
        """A token of a user; ``fields``: roles or scopes that it is limited to."""
        self._client.post(f"{self.api}/users/{user}")
        answer = self._client.post(f"{self.api}/users/{user}/tokens", json=fields)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])

    def call(self, method: str, path: str, **fields: Any) -> None:
        answer = self._client.request(method, f"{self.api}{path}", json=fields)
        assert answer.is_success, answer.text

    def model(self, token: str) -> dict[str, Any]:
        headers = {"Authorization": f"token {token}"}
        answer = httpx.get(f"{self.api}/user", headers=headers, trust_env=False, timeout=ANSWERS_WITHIN_S)
        return dict(answer.json())

    def close(self) -> None:
        self._client.close()
        self.process.terminate()
        self.process.wait(60)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("hub"))
    yield hub
    hub.close()


@pytest.fixture
async def identify(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Who a token is to the pool, as its service asks the hub."""
    monkeypatch.setenv("JUPYTERHUB_API_URL", hub.api)
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", SERVICE)
    monkeypatch.setenv("JUPYTERHUB_SERVICE_NAME", "tests")
    tokens = HubTokens()

    async def identify(token: str) -> Identity:
        identity = await tokens.identify(token)
        assert identity is not None
        return identity

    return identify


NOTEBOOK = {"scopes": ["custom:gpu:use!user=adam", "access:servers!user=adam"]}


async def test_the_hub_calls_the_owner_of_a_notebooks_token_an_admin(hub: Hub) -> None:
    """So the pool must not go by it. Should the hub stop saying so, nothing is lost."""
    model = hub.model(hub.token("adam", **NOTEBOOK))
    assert model["admin"] is True
    assert "admin:users" not in model["scopes"]


async def test_an_admins_notebook_may_use_the_pool_and_not_administer_it(hub: Hub, identify: Any) -> None:
    identity = await identify(hub.token("adam", **NOTEBOOK))
    assert identity.name == "adam"
    assert identity.may(USE)
    assert not any(identity.may_somewhere(scope) for scope in (ADMIN_POOL, ADMIN_QUOTA, READ_USAGE))


async def test_the_role_of_a_server_alone_allows_nothing_in_the_pool(hub: Hub, identify: Any) -> None:
    identity = await identify(hub.token("adam", roles=["server"]))
    assert not any(identity.may_somewhere(scope) for scope in (USE, ADMIN_POOL, ADMIN_QUOTA, READ_USAGE))


async def test_whoever_has_the_scope_by_a_role_administers_the_pool(hub: Hub, identify: Any) -> None:
    everything = await identify(hub.token("gina"))
    assert everything.may(ADMIN_POOL)
    assert "gpu-admins" in everything.groups
    limited = await identify(hub.token("gina", scopes=["custom:gpu:use!user=gina"]))
    assert limited.may(USE)
    assert not limited.may(ADMIN_POOL)


@pytest.mark.parametrize(("token", "name"), [("token-of-gpu1", "gpu1"), ("token-of-machines", "gpu2")])
async def test_a_hubs_service_speaks_for_the_gpu_server_that_it_is_bound_to(
    identify: Any, token: str, name: str
) -> None:
    identity = await identify(token)
    assert [other for other in ("gpu1", "gpu2", "machines", "") if identity.speaks_for(other)] == [name]


async def test_a_token_that_the_hub_does_not_know_is_nobody(hub: Hub, identify: Any) -> None:
    with pytest.raises(AssertionError):
        await identify("no-such-token")
