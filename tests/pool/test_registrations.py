"""Who registers under a GPU server's name while it answers, from where, and what the admin hears of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from gpu_kernels.errors import AddressRefused, AgentElsewhere, AgentReplaced
from gpu_kernels.pool.ledger.commands import servers
from gpu_kernels.pool.ledger.commands.registration import TOLD_EVERY, note_refused
from gpu_kernels.pool.ledger.queries.agent_views import REMEMBERED, refused_view
from gpu_kernels.resources.agents import RefusedRegistration
from tests.pool.controller import ADDRESS, Agent, ThreadedController, reserve, token
from tests.pool.rig import TIMING, Rig

ELSEWHERE = "tcp://gpu1.evil:1"


class TestInTheLedger:
    def test_a_server_that_answers_is_nowhere_else(self, rig: Rig) -> None:
        lease = rig.reserve()
        for place in ({"address": ELSEWHERE}, {"owner": "mallory"}, {"address": ELSEWHERE, "boot": "1"}):
            with pytest.raises(AgentElsewhere, match="The GPU server gpu1 answers from tcp://gpu1:1"):
                rig.agent(**{"boot": "evil", **place})
        assert rig.lease(lease)["agent"]["address"] == "tcp://gpu1:1"
        rig.report(alive=[lease])
        assert rig.state(lease) == "active"

    def test_a_restart_in_place_is_let_in_at_once(self, rig: Rig) -> None:
        rig.agent(boot="2")
        rig.report()

    def test_a_server_that_was_moved_is_let_in_when_the_old_one_is_silent(self, rig: Rig) -> None:
        rig.now += TIMING.agent_ttl - 1
        with pytest.raises(AgentElsewhere, match="30 s after the last report") as refused:
            rig.agent(boot="2", address=ELSEWHERE)
        assert refused.value.retry_after == 1.0
        rig.now += 1
        rig.agent(boot="2", address=ELSEWHERE)
        with pytest.raises(AgentReplaced):
            rig.report(boot="1", done=0)

    def test_a_server_of_which_an_admin_says_that_it_is_gone_may_be_elsewhere_at_once(self, rig: Rig) -> None:
        rig.write(lambda tx: servers.declare_lost(tx, "gpu1", actor="root"))
        rig.agent(boot="2", address=ELSEWHERE)

    def test_a_controller_that_has_just_started_does_not_know_who_is_silent(self, rig: Rig) -> None:
        """Else whoever comes first after a long outage has the name."""
        rig.now += 10 * TIMING.agent_ttl
        rig.restart()
        with pytest.raises(AgentElsewhere):
            rig.agent(boot="evil", address=ELSEWHERE)
        rig.agent(boot="2")
        rig.now += TIMING.agent_ttl
        rig.sweep()
        rig.agent(boot="3", address=ELSEWHERE)

    def test_the_trail_tells_of_refusals_once_a_minute_however_many_there_are(self, rig: Rig) -> None:
        def attempt(number: int) -> None:
            rig.write(
                lambda tx: note_refused(
                    tx, "gpu1", owner="mallory", address=f"tcp://10.0.0.{number}:2000", why="agent_elsewhere"
                )
            )

        for number in range(10):
            attempt(number)
        assert rig.trail("gpu1").count(("mallory", "registration_refused")) == 1
        rig.now += TOLD_EVERY
        attempt(99)
        assert rig.trail("gpu1").count(("mallory", "registration_refused")) == 2
        seen = rig.read(lambda tx: refused_view(tx, "gpu1"))
        assert seen == RefusedRegistration("tcp://10.0.0.99:2000", "agent_elsewhere", 11, 0.0)
        rig.now += REMEMBERED + 1
        assert rig.read(lambda tx: refused_view(tx, "gpu1")) is None


class TestOverTheApi:
    def test_who_has_a_servers_token_does_not_get_what_its_clients_send(
        self, controller: ThreadedController, agent: Agent
    ) -> None:
        """The attack: the same token, another boot, an address of the thief's. The admin hears of it."""
        ada, root = controller.client("ada"), controller.client("root")
        lease = reserve(ada)
        thief = Agent(controller.client("gpu-server"), boot="evil")
        for _ in range(3):
            with pytest.raises(AgentElsewhere) as refused:
                thief.register(address="tcp://127.0.0.1:6666")
        assert refused.value.details == {
            "agent": "gpu1",
            "address": ADDRESS,
            "refused": "tcp://127.0.0.1:6666",
        }
        assert ada.get(lease.id).address == reserve(ada, "b.ipynb").address == ADDRESS
        assert len(agent.report().leases) == 2
        (seen,) = root.agents()
        assert seen.address == ADDRESS
        assert seen.refused is not None
        assert seen.refused.times == 3
        assert (seen.refused.address, seen.refused.why) == ("tcp://127.0.0.1:6666", "agent_elsewhere")
        (event,) = root.audit(kind="registration_refused").items
        assert (event.actor, event.subject) == ("gpu-server", "gpu1")
        assert event.detail == {"address": "tcp://127.0.0.1:6666", "why": "agent_elsewhere", "times": 1}
        assert 'pool_registrations_refused_total{agent="gpu1",code="agent_elsewhere"} 3.0' in metrics(
            controller
        )

    @pytest.mark.parametrize(
        "address",
        ["tcp://169.254.169.254:80", "tcp://169.254.169.254:8080", "tcp://127.0.0.1:22", "tcp://8.8.8.8:9960",
         "tcp://gpu1.example.org:9960", "unix:///run/docker.sock"],
    )  # fmt: skip
    def test_addresses_that_are_not_listed_are_refused_and_told(
        self, controller: ThreadedController, address: str
    ) -> None:
        agent = Agent(controller.client("gpu-server"))
        with pytest.raises(AddressRefused, match="may not announce") as refused:
            agent.register(address=address)
        assert "lists where its GPU servers are: PoolController.agent_networks" in refused.value.message
        root = controller.client("root")
        assert root.agents() == ()
        (event,) = root.audit(kind="registration_refused").items
        assert (event.subject, event.detail["address"]) == ("gpu1", address)
        assert 'pool_registrations_refused_total{agent="gpu1",code="address_refused"} 1.0' in metrics(
            controller
        )

    @pytest.mark.parametrize(
        ("listed", "address"),
        [("8.8.8.0/24", "tcp://8.8.8.8:9960"), (".example.org", "tcp://gpu1.example.org:9960"),
         ("unix:///run/gpu", "unix:///run/gpu/port")],
    )  # fmt: skip
    def test_addresses_that_are_listed_are_taken(self, tmp_path: Path, listed: str, address: str) -> None:
        with ThreadedController(tmp_path / "state", agent_networks=[listed]) as controller:
            Agent(controller.client("gpu-server")).register(address=address)
            assert controller.client("root").agents()[0].address == address

    def test_a_server_that_registered_before_its_address_was_struck_off_is_told_so(
        self, tmp_path: Path
    ) -> None:
        with ThreadedController(tmp_path / "state") as controller:
            Agent(controller.client("gpu-server")).register()
        elsewhere = ThreadedController(tmp_path / "state", agent_networks=["10.0.0.0/8"])
        with elsewhere as controller, pytest.raises(AddressRefused):
            Agent(controller.client("gpu-server")).report()

    def test_an_admin_at_the_command_line_sees_who_tried(
        self, controller: ThreadedController, agent: Agent, capsys: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from tests.cli.command_line import command_line

        with pytest.raises(AgentElsewhere):
            Agent(controller.client("gpu-server"), boot="evil").register(address="tcp://127.0.0.1:6666")
        assert command_line(controller, monkeypatch)("root", "agents") == 0
        said = capsys.readouterr().out
        assert "gpu1: 1 registration(s) refused in the last hour" in said
        assert f"from tcp://127.0.0.1:6666, while it answers from {ADDRESS}" in said


def metrics(controller: ThreadedController) -> str:
    headers = {"Authorization": f"token {token('root')}"}
    return httpx.get(f"{controller.url}/metrics", headers=headers, timeout=60).text
