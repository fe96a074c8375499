"""A token for each GPU server, bound to its name: who may speak as whom, and how tokens come and go."""

from __future__ import annotations

import hashlib
from pathlib import Path

import httpx
import pytest

from gpu_kernels.client import PoolClient
from gpu_kernels.errors import (
    AuthenticationUnavailable,
    Conflict,
    Forbidden,
    Unauthenticated,
    UnknownAgentToken,
)
from gpu_kernels.pool.ledger.commands.agent_tokens import MOST_OF_ONE
from gpu_kernels.pool.service.authentication import TokenFile, TokenSource
from gpu_kernels.pool.service.identity import Identity
from gpu_kernels.resources.agents import AgentToken
from tests.pool.controller import Agent, ControllerProcess, ThreadedController, reserve, token


def made(controller: ThreadedController | ControllerProcess, name: str) -> PoolClient:
    """A GPU server's client, with a token that an admin made for this name."""
    return PoolClient(controller.url, controller.client("root").add_agent_token(name).token, 60.0)


def test_a_server_takes_no_other_ones_name_and_no_ones_secrets(
    controller: ThreadedController, agent: Agent
) -> None:
    """The attack: a second GPU server, with a good token of its own, goes for the first one's name."""
    lease = reserve(controller.client("ada"))
    for thief in (made(controller, "gpu2"), controller.client("other-server"), controller.client("gpu7")):
        with pytest.raises(Forbidden, match="is not bound to the GPU server gpu1"):
            Agent(thief, "gpu1", boot="evil").register()
        with pytest.raises(Forbidden, match="is not bound to the GPU server gpu1"):
            Agent(thief, "gpu1", boot=agent.boot).report()
    assert controller.client("ada").get(lease.id).address == lease.address
    assert [target.id for target in agent.report().leases] == [lease.id]


@pytest.mark.parametrize("name", ["gpu1", "Gpu1", "gpu", "gpu11", "gpu7x"])
def test_a_token_is_good_for_the_very_name_alone(controller: ThreadedController, name: str) -> None:
    Agent(made(controller, "gpu1"), "gpu1").register()
    Agent(controller.client("gpu7"), "gpu7").register(uuid="GPU-7")  # a service of that name
    if name != "gpu1":
        with pytest.raises(Forbidden):
            Agent(made(controller, "gpu1"), name).register()
        with pytest.raises(Forbidden):
            Agent(controller.client("gpu7"), name).register()


def test_a_servers_token_has_no_other_right(controller: ThreadedController) -> None:
    server = made(controller, "gpu1")
    assert server.pool().gpus == ()
    for attempt in (server.agents, server.agent_tokens, server.list, server.audit, server.read_groups):
        with pytest.raises(Forbidden):
            attempt()
    with pytest.raises(Forbidden):
        server.add_agent_token("gpu2")


@pytest.mark.parametrize("who", ["ada", "grace", "dean", "gpu-server", "eve-lab"])
def test_only_admins_of_the_pool_make_see_and_remove_tokens(controller: ThreadedController, who: str) -> None:
    there = controller.client("root").add_agent_token("gpu1")
    client = controller.client(who)
    for attempt in (
        client.agent_tokens,
        lambda: client.add_agent_token("gpu1"),
        lambda: client.remove_agent_token(there.id),
    ):
        with pytest.raises(Forbidden):
            attempt()
    assert [one.id for one in controller.client("root").agent_tokens()] == [there.id]


def test_a_token_is_told_once_and_kept_nowhere(controller: ThreadedController, tmp_path: Path) -> None:
    root = controller.client("root")
    told = root.add_agent_token("gpu1")
    assert len(bytes.fromhex(told.token.removeprefix("gpu-agent-"))) == 32
    listed = root.agent_tokens()
    assert listed == (AgentToken(told.id, "gpu1", "root", told.created_at),)
    stored = b"".join(path.read_bytes() for path in (tmp_path / "state").glob("*") if path.is_file())
    assert hashlib.sha256(told.token.encode()).hexdigest().encode() in stored
    assert told.token.removeprefix("gpu-agent-").encode() not in stored


def test_a_token_that_is_taken_back_is_refused_at_once(tmp_path: Path) -> None:
    """Also where the word on a token is believed for a while."""
    with ThreadedController(tmp_path / "state", token_cache=3600.0) as controller:
        root, server = controller.client("root"), made(controller, "gpu1")
        Agent(server, "gpu1").register()
        (there,) = root.agent_tokens()
        assert root.remove_agent_token(there.id).agent == "gpu1"
        with pytest.raises(Unauthenticated):
            Agent(server, "gpu1").report()
        with pytest.raises(UnknownAgentToken):
            root.remove_agent_token(there.id)
        kinds = [(event.actor, event.kind) for event in root.audit(subject="gpu1").items]
        assert kinds[0] == ("root", "agent_token_removed")
        assert ("root", "agent_token_added") in kinds


def test_tokens_outlive_a_controller_that_is_killed(tmp_path: Path) -> None:
    with ControllerProcess(tmp_path / "state") as controller:
        server = made(controller, "gpu1")
        agent = Agent(server, "gpu1")
        agent.register()
        controller.kill()
        controller.start()
        agent.report()


def test_one_name_has_few_tokens(controller: ThreadedController) -> None:
    root = controller.client("root")
    for _ in range(MOST_OF_ONE):
        root.add_agent_token("gpu1")
    with pytest.raises(Conflict, match="at most 4"):
        root.add_agent_token("gpu1")
    root.add_agent_token("gpu2")


def test_unknown_tokens_of_servers_are_strangers(controller: ThreadedController) -> None:
    for wrong in ("gpu-agent-", f"gpu-agent-{'0' * 64}", f"gpu-agent-{token('root')}"):
        answer = httpx.get(
            f"{controller.url}/api/v1/pool", headers={"Authorization": f"token {wrong}"}, timeout=60
        )
        assert answer.status_code == 401


def test_two_servers_tokens_are_two_identities(controller: ThreadedController) -> None:
    """What one may have under way is no longer everybody's: each is counted by its own name."""
    Agent(made(controller, "gpu1"), "gpu1").register()
    Agent(made(controller, "gpu2"), "gpu2").register(uuid="GPU-2")
    owners = {event.actor for event in controller.client("root").audit(kind="registered").items}
    assert owners == {"agent:gpu1", "agent:gpu2"}


class HubThatGoesAway:
    """Knows what the token file knows, until it is away; and remembers what it was asked about."""

    def __init__(self, knows: TokenSource) -> None:
        self._knows = knows
        self.away = False
        self.asked: set[str] = set()

    async def identify(self, token: str) -> Identity | None:
        self.asked.add(token)
        if self.away:
            raise AuthenticationUnavailable("The hub is away.")
        return await self._knows.identify(token)


def test_who_a_gpu_server_is_does_not_depend_on_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = ThreadedController(tmp_path / "state")
    hub = HubThatGoesAway(TokenFile(tmp_path / "state" / "tokens.json"))
    monkeypatch.setattr(controller.app, "_token_source", lambda: hub)
    with controller:
        root = controller.client("root")
        issued = root.add_agent_token("gpu1").token
        hub.away = True
        with pytest.raises(AuthenticationUnavailable):
            root.agents()
        agent = Agent(PoolClient(controller.url, issued, 60.0), "gpu1")
        agent.register()
        agent.report()
    assert hub.asked == {token("root")}
