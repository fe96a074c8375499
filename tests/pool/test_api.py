"""The API over real HTTP: who may do what, the shapes of answers, long polls, secrets."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from gpu_kernels.client import PoolClient, Slot
from gpu_kernels.errors import (
    AgentReplaced,
    CourseLimit,
    Forbidden,
    InvalidRequest,
    InvalidSize,
    KeyReused,
    LedgerUnavailable,
    NotAMember,
    PoolError,
    UnknownAgent,
    UnknownCourse,
    UnknownLease,
)
from gpu_kernels.pool.service.desk import Desk
from gpu_kernels.resources.pool import PoolClass
from tests.pool.controller import ADDRESS, Agent, ThreadedController, error_of, reserve, token, until


@pytest.fixture
def ada(controller: ThreadedController, agent: Agent) -> PoolClient:
    return controller.client("ada")


class TestLeases:
    def test_the_life_of_a_lease(self, ada: PoolClient, agent: Agent) -> None:
        lease = reserve(ada, labels={"kernel": "python3"})
        assert (lease.state, lease.user, lease.course) == ("reserved", "ada", "ml101")
        assert (lease.mib, lease.thousandths, lease.ttl) == (655, 20, 60.0)
        assert (lease.agent_name, lease.address) == ("gpu1", ADDRESS)
        assert lease.labels == {"kernel": "python3"}
        assert [(seen.id, seen.secret) for seen in ada.list()] == [(lease.id, lease.secret)]
        assignment = agent.report()
        assert [target.id for target in assignment.leases] == [lease.id]
        agent.report([lease])
        assert ada.get(lease.id).state == "active"
        assert ada.renew([(lease.id, lease.epoch)]).left == {lease.id: 60.0}
        assert ada.release(lease.id, "another kernel").state == "active"
        assert ada.release(lease.id, lease.holder).state == "draining"
        agent.carry_out()
        assert ada.get(lease.id).state == "released"
        assert ada.list() == []

    def test_an_agent_can_check_the_secret_and_does_not_get_it(self, ada: PoolClient, agent: Agent) -> None:
        lease = reserve(ada)
        assert lease.secret is not None
        secret = bytes.fromhex(lease.secret)
        assert len(secret) == 32
        told = agent.report().leases[0]
        assert told.secret_sha256 == hashlib.sha256(secret).hexdigest()
        assert reserve(ada).secret == ada.get(lease.id).secret == lease.secret

    def test_a_secret_is_for_its_owner_while_the_lease_is_in_force(
        self, controller: ThreadedController, ada: PoolClient, agent: Agent
    ) -> None:
        lease = reserve(ada)
        others = [controller.client("grace").list("ml101"), controller.client("root").list(everyone=True)]
        assert [[(seen.id, seen.secret) for seen in view] for view in others] == [[(lease.id, None)]] * 2
        assert ada.release(lease.id, lease.holder).secret is None

    def test_secrets_and_tokens_are_in_no_file_and_no_log(
        self,
        controller: ThreadedController,
        ada: PoolClient,
        agent: Agent,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.DEBUG)
        lease = reserve(ada)
        agent.report([lease])
        with pytest.raises(PoolError):
            ada.revoke(lease.id, "because")
        assert lease.secret is not None
        logged = caplog.text.encode()
        assert b"/api/v1/leases" in logged
        stored = b"".join(path.read_bytes() for path in (tmp_path / "state").glob("ledger.sqlite*"))
        assert lease.id.encode() in stored
        for secret in (lease.secret.encode(), bytes.fromhex(lease.secret), token("ada").encode()):
            assert secret not in stored
            assert secret not in logged

    def test_a_token_for_one_server_learns_no_secrets_of_another(
        self, controller: ThreadedController, agent: Agent
    ) -> None:
        eve = controller.client("eve")
        one = eve.ask("0.1 V100", key="1", slot=Slot("lab", "a"), holder="h")
        two = eve.ask("0.1 V100", key="2", slot=Slot("", "a"), holder="h")
        told = {lease.id: lease.secret for lease in controller.client("eve-lab").list()}
        assert told == {one.id: one.secret, two.id: None}

    def test_another_users_lease_cannot_be_seen_kept_or_ended(
        self, controller: ThreadedController, ada: PoolClient
    ) -> None:
        lease = reserve(ada)
        bob = controller.client("bob")
        for attempt in (
            lambda: bob.get(lease.id),
            lambda: bob.release(lease.id, lease.holder),
        ):
            with pytest.raises(UnknownLease):
                attempt()
        with pytest.raises(Forbidden):
            bob.revoke(lease.id, "mine now")
        with pytest.raises(Forbidden):
            bob.release_server("", user="ada")
        with pytest.raises(Forbidden):
            bob.list(everyone=True)
        with pytest.raises(Forbidden):
            bob.list("ml101")
        assert bob.renew([(lease.id, lease.epoch)]).lost[0].state == "unknown"
        assert bob.release_server("") == []
        assert ada.get(lease.id).state == "reserved"

    def test_the_texts_of_refusals_reach_the_user(self, ada: PoolClient) -> None:
        reserve(ada, size="0.1 V100")
        with pytest.raises(CourseLimit, match=r"ml101 holds 0\.1 of 0\.1 V100 now") as caught:
            reserve(ada, "b.ipynb")
        assert caught.value.retry_after == 30
        with pytest.raises(InvalidSize, match=r"'0\.02 GB' cannot be read"):
            reserve(ada, size="0.02 GB")
        with pytest.raises(NotAMember):
            reserve(ada, course="cv202")
        with pytest.raises(UnknownCourse):
            reserve(ada, course="ghosts")
        with pytest.raises(KeyReused):
            reserve(ada, "a.ipynb", "0.01 V100", key="a.ipynb 0.1 V100")

    def test_two_who_race_for_the_last_slice_do_not_both_get_it(
        self, controller: ThreadedController, agent: Agent
    ) -> None:
        eve = controller.client("eve")
        reserve(eve, size="0.9 V100")
        together = threading.Barrier(8)

        def ask(number: int) -> str:
            together.wait()
            try:
                return reserve(eve, f"{number}.ipynb", "0.1 V100").state
            except PoolError as error:
                return error.code

        with ThreadPoolExecutor(8) as pool:
            answers = sorted(pool.map(ask, range(8)))
        assert answers == ["course_limit"] * 7 + ["reserved"]

    def test_the_same_request_sent_many_times_at_once_is_one_lease(
        self, ada: PoolClient, agent: Agent
    ) -> None:
        with ThreadPoolExecutor(8) as pool:
            leases = list(pool.map(lambda _: reserve(ada).id, range(16)))
        assert len(set(leases)) == 1

    def test_a_queued_lease_wakes_its_owner_when_it_is_granted(
        self, controller: ThreadedController, ada: PoolClient, agent: Agent
    ) -> None:
        eve = controller.client("eve")
        big = reserve(eve, size="1 V100")
        queued = reserve(ada, wait=60)
        assert (queued.state, queued.position, queued.secret) == ("queued", 1, None)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(ada.wait_for, queued, 25)
            eve.release(big.id, big.holder)
            agent.carry_out()
            lease = waiting.result()
        assert lease.state == "reserved"
        assert lease.secret is not None

    def test_waiting_ends_when_its_time_is_over(
        self, controller: ThreadedController, ada: PoolClient, agent: Agent
    ) -> None:
        reserve(controller.client("eve"), size="1 V100")
        queued = reserve(ada, wait=60)
        assert ada.get(queued.id, wait=0.05).state == "queued"
        assert ada.release(queued.id, queued.holder).state == "released"

    def test_a_server_that_stopped_gives_everything_back(
        self, controller: ThreadedController, ada: PoolClient
    ) -> None:
        lab = ada.ask("0.02 V100", key="1", slot=Slot("lab", "a.ipynb"), holder="h")
        default = ada.ask("0.02 V100", key="2", slot=Slot("", "a.ipynb"), holder="h")
        assert [lease.id for lease in ada.release_server("lab")] == [lab.id]
        assert [lease.id for lease in ada.list() if lease.in_force] == [default.id]
        released = controller.client("root").release_server("", user="ada")
        assert [lease.id for lease in released] == [default.id]

    def test_an_admin_takes_a_lease_back(
        self, controller: ThreadedController, ada: PoolClient, agent: Agent
    ) -> None:
        lease = reserve(ada)
        taken = controller.client("root").revoke(lease.id, "exam")
        assert (taken.state, taken.reason) == ("quarantined", "Taken back: exam")
        assert ada.renew([(lease.id, lease.epoch)]).lost[0].reason == "Taken back: exam"
        agent.carry_out()
        assert ada.get(lease.id).state == "freed"
        with pytest.raises(UnknownLease):
            controller.client("root").revoke("f00", "exam")


class TestAgents:
    def test_a_report_that_waits_is_answered_when_the_set_changes(
        self, ada: PoolClient, agent: Agent
    ) -> None:
        assert agent.report().leases == ()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(agent.report, wait=10.0)
            lease = reserve(ada)
            assert [target.id for target in waiting.result().leases] == [lease.id]

    def test_a_report_says_how_long_it_was_held_before_the_leases_were_counted(
        self, controller: ThreadedController, ada: PoolClient, agent: Agent
    ) -> None:
        lease = reserve(ada)
        agent.carry_out()
        began = time.monotonic()
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(agent.report, [lease], wait=2.0)
            until(lambda: controller.long_polls() == 1, "the report waits")
            ada.renew([(lease.id, lease.epoch)])
            renewed = time.monotonic()
            answer = waiting.result(60)
        expires_in = answer.leases[0].expires_in
        assert 1.9 <= answer.held <= time.monotonic() - began
        assert began + answer.held + expires_in <= renewed + lease.ttl, "no later than the lease's end"
        assert agent.report().held == 0.0

    def test_a_report_that_was_taken_is_answered_when_the_ledger_cannot_be_read_again(
        self, controller: ThreadedController, ada: PoolClient, agent: Agent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lease = reserve(ada)
        agent.carry_out()

        async def unavailable(self: Desk, work: object) -> None:
            raise LedgerUnavailable("The ledger cannot be read.", log_message="by this test")

        monkeypatch.setattr(Desk, "read", unavailable)
        answer = agent.report([lease], wait=1.0)
        assert [target.id for target in answer.leases] == [lease.id]

    def test_a_report_that_is_behind_is_answered_at_once(self, ada: PoolClient, agent: Agent) -> None:
        lease = reserve(ada)
        assert [target.id for target in agent.report(wait=3600).leases] == [lease.id]

    def test_a_report_before_the_registration_and_by_another_token(
        self, controller: ThreadedController, agent: Agent
    ) -> None:
        with pytest.raises(UnknownAgent):
            Agent(controller.client("gpu-server"), "gpu9").report()
        with pytest.raises(Forbidden):
            Agent(controller.client("ada"), "gpu1").register()

    def test_an_older_process_is_told_so(self, controller: ThreadedController, agent: Agent) -> None:
        Agent(controller.client("gpu-server"), boot="2").register()
        with pytest.raises(AgentReplaced):
            agent.report()

    def test_an_older_process_that_waits_is_told_nothing_of_the_new_ones(
        self, controller: ThreadedController, ada: PoolClient, agent: Agent
    ) -> None:
        agent.report()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(agent.report, wait=10.0)
            until(lambda: controller.long_polls() == 1, "the report waits")
            Agent(controller.client("gpu-server"), boot="2").register()
            reserve(ada)
            with pytest.raises(AgentReplaced):
                waiting.result()

    def test_admins_see_agents(self, controller: ThreadedController, agent: Agent) -> None:
        headers = {"Authorization": f"token {token('root')}"}
        listed = httpx.get(f"{controller.url}/api/v1/agents", headers=headers).json()["agents"]
        assert [(item["name"], item["answering"]) for item in listed] == [("gpu1", True)]


class TestPoolAndCourses:
    def test_the_pool_shows_what_there_is_and_names_nobody(
        self, controller: ThreadedController, ada: PoolClient
    ) -> None:
        reserve(ada)
        pool = ada.pool()
        assert pool.classes == (PoolClass("V100", 1, 1, 32768, 20, ("0.02 V100", "0.1 V100", "1 V100")),)
        gpu = pool.gpus[0]
        assert (gpu.total_mib, gpu.allocatable_mib, gpu.used_mib) == (33000, 32768, 655)
        assert "ada" not in str(pool)

    def test_who_sees_which_courses(self, controller: ThreadedController, ada: PoolClient) -> None:
        def names(user: str) -> list[tuple[str, bool]]:
            return [(c.name, c.instructor) for c in controller.client(user).courses()]

        assert names("ada") == [("ml101", False)]
        assert names("grace") == [("ml101", True)]
        assert names("root") == [("cv202", True), ("ml101", True)]
        with pytest.raises(NotAMember):
            ada.course("cv202")

    @pytest.mark.parametrize("who", ["grace", "dean", "root"])
    def test_instructors_and_admins_set_a_limit(
        self, controller: ThreadedController, ada: PoolClient, who: str
    ) -> None:
        changed = controller.client(who).set_limit("ml101", {"V100": 40})
        assert changed.limits == {"V100": 40}
        assert ada.course("ml101").limits == {"V100": 40}

    def test_others_set_no_limit(self, controller: ThreadedController, ada: PoolClient) -> None:
        with pytest.raises(Forbidden, match="its instructors may"):
            ada.set_limit("ml101", {"V100": 1000})
        with pytest.raises(Forbidden):
            controller.client("dean").set_limit("cv202", {"V100": 1000})
        with pytest.raises(Forbidden):
            controller.client("grace").set_limit("newcourse", {"V100": 1000})

    def test_an_admin_makes_a_course_by_giving_it_a_limit(self, controller: ThreadedController) -> None:
        controller.client("root").set_limit("nlp303", {"V100": 20, "A100": 0})
        assert controller.client("root").course("nlp303").limits == {"A100": 0, "V100": 20}

    @pytest.mark.parametrize(
        ("limit", "text"),
        [({"GB": 5}, "not the name of a GPU class"), ({"V100": -1}, "must be at least 0, not -1")],
    )
    def test_a_limit_that_makes_no_sense_is_refused(
        self, controller: ThreadedController, limit: dict[str, int], text: str
    ) -> None:
        with pytest.raises(InvalidRequest, match=text):
            controller.client("root").set_limit("ml101", limit)


class TestHealthAndMetrics:
    def test_they_are_for_this_machine_and_for_those_with_the_scope(
        self, controller: ThreadedController, agent: Agent
    ) -> None:
        for path in ("/health", "/metrics", "/api/v1/health", "/api/v1/metrics"):
            assert httpx.get(controller.url + path).status_code == 200
            outside = {"X-Forwarded-For": "192.0.2.1"}
            refused = httpx.get(controller.url + path, headers=outside)
            assert error_of(refused)["code"] == "unauthenticated"
            with_scope = {**outside, "Authorization": f"token {token('root')}"}
            assert httpx.get(controller.url + path, headers=with_scope).status_code == 200

    def test_metrics_tell_the_ledger(self, controller: ThreadedController, ada: PoolClient) -> None:
        reserve(ada)
        with pytest.raises(CourseLimit):
            reserve(ada, "b.ipynb", "0.1 V100")
        lines = httpx.get(f"{controller.url}/metrics").text.splitlines()
        for expected in (
            'pool_leases{course="ml101",gpu_class="V100",state="reserved"} 1.0',
            'pool_lease_thousandths{course="ml101",gpu_class="V100",state="reserved"} 20.0',
            'pool_gpu_used_mib{agent="gpu1",gpu="GPU-1",gpu_class="V100"} 655.0',
            'pool_gpu_allocatable_mib{agent="gpu1",gpu="GPU-1",gpu_class="V100"} 32768.0',
            'pool_gpu_available{agent="gpu1",gpu="GPU-1",gpu_class="V100"} 1.0',
            'pool_grants_total{course="ml101",gpu_class="V100"} 1.0',
            'pool_refusals_total{code="course_limit"} 1.0',
            "pool_ledger_mismatch 0.0",
        ):
            assert expected in lines
        assert any(line.startswith("pool_request_seconds_count") for line in lines)
