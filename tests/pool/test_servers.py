"""GPU servers: cut off, lost, drained, restored, claiming another's GPU; leases that live long or idle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_kernels.errors import AgentReplaced, Conflict, InvalidRequest, PoolFull, UnknownAgent
from gpu_kernels.pool.ledger.commands import servers
from gpu_kernels.pool.ledger.commands.expiry import LIFE_OVER
from gpu_kernels.pool.ledger.commands.servers import FENCE_MARGIN_MS, GONE, SERVER_LEAVES
from gpu_kernels.pool.ledger.queries import agent_views, audit
from gpu_kernels.pool.ledger.state.rows import Event
from gpu_kernels.resources.agents import AgentReport
from gpu_kernels.resources.leases import Lost
from tests.pool.rig import TIMING, TTL, MemoryRig

pytestmark = pytest.mark.quick

DAY = 86_400_000

F = 100_000
FENCED = int(F * 1.1) + FENCE_MARGIN_MS


@pytest.fixture
def rig() -> MemoryRig:
    rig = MemoryRig()
    rig.agent()
    return rig


def standing(rig: MemoryRig, name: str, state: str, **fields: Any) -> None:
    rig.write(lambda tx: servers.set_standing(tx, name, state, actor="root", **fields))


def expired(rig: MemoryRig) -> dict[str, Any]:
    """A lease that nobody renewed, on a server that has gone silent."""
    lease = rig.reserve()
    rig.report(alive=[lease])
    rig.pass_time(TTL, agents_report=False)
    assert rig.state(lease) == "quarantined"
    return lease


class TestFencing:
    def test_a_promise_to_have_killed_by_then_frees_what_is_over(self, rig: MemoryRig) -> None:
        rig.agent(fences_after=F)
        lease = expired(rig)
        rig.pass_time(FENCED - TTL - 1, agents_report=False)
        assert rig.state(lease) == "quarantined"
        rig.pass_time(1, agents_report=False)
        assert (rig.state(lease), rig.used()) == ("freed", [(0, 0)])
        assert ("clock", "fenced") in rig.trail("gpu1")

    def test_each_report_puts_the_proof_off(self, rig: MemoryRig) -> None:
        rig.agent(fences_after=F)
        lease = expired(rig)
        rig.report(alive=[lease])
        rig.pass_time(FENCED - 1, agents_report=False)
        assert rig.state(lease) == "quarantined"

    def test_what_is_renewed_on_a_silent_server_stays_counted(self, rig: MemoryRig) -> None:
        rig.agent(fences_after=F)
        lease = rig.reserve()
        for _ in range(10):
            rig.pass_time(TTL - 1, agents_report=False)
            rig.renew(lease)
        assert (rig.state(lease), rig.used()) == ("reserved", [(655, 20)])
        rig.release(lease)
        rig.sweep()
        assert rig.state(lease) == "released"

    def test_an_agent_that_promises_nothing_keeps_its_slices(self, rig: MemoryRig) -> None:
        lease = expired(rig)
        rig.pass_time(1000 * TTL, agents_report=False)
        assert rig.state(lease) == "quarantined"

    def test_time_that_this_controller_did_not_see_proves_nothing(self, rig: MemoryRig) -> None:
        rig.agent(fences_after=F)
        lease = expired(rig)
        rig.now += 1000 * TTL
        rig.restart()
        rig.pass_time(FENCED - 1, agents_report=False)
        assert rig.state(lease) == "quarantined"
        rig.pass_time(1, agents_report=False)
        assert rig.state(lease) == "freed"


class TestLost:
    def test_an_admins_word_frees_everything_there(self, rig: MemoryRig) -> None:
        over, living = expired(rig), rig.reserve("b.ipynb", user="bob", wait=600)
        rig.report(alive=[over])
        freed = rig.write(lambda tx: servers.declare_lost(tx, "gpu1", actor="root"))
        assert (freed, rig.state(over), rig.state(living)) == (2, "freed", "freed")
        assert rig.lease(living)["reason"] == GONE
        assert rig.used() == []

    def test_its_agent_must_begin_anew_if_it_comes_back(self, rig: MemoryRig) -> None:
        rig.write(lambda tx: servers.declare_lost(tx, "gpu1", actor="root"))
        with pytest.raises(AgentReplaced):
            rig.report()
        rig.agent(boot="2")
        assert rig.reserve()["state"] == "reserved"

    def test_one_that_is_not_there_is_said_so(self, rig: MemoryRig) -> None:
        with pytest.raises(UnknownAgent, match="no GPU server gpu9"):
            rig.write(lambda tx: servers.declare_lost(tx, "gpu9", actor="root"))


class TestLeaving:
    def test_nothing_goes_to_a_cordoned_server_and_what_is_there_stays(self, rig: MemoryRig) -> None:
        lease = rig.reserve()
        standing(rig, "gpu1", "cordoned")
        with pytest.raises(PoolFull):
            rig.reserve("b.ipynb")
        assert rig.renew(lease).renewed
        waiting = rig.reserve("b.ipynb", user="bob", wait=60)
        standing(rig, "gpu1", "open")
        assert rig.state(waiting) == "reserved"

    def test_a_drained_server_is_empty_by_then(self, rig: MemoryRig) -> None:
        lease = rig.reserve()
        standing(rig, "gpu1", "draining", drain_by=rig.now + 30_000)
        rig.pass_time(29_999)
        assert rig.state(lease) == "reserved"
        rig.pass_time(1)
        assert (rig.state(lease), rig.lease(lease)["reason"]) == ("quarantined", SERVER_LEAVES)

    def test_nothing_goes_to_a_server_that_ends_before_the_lease_may(self, rig: MemoryRig) -> None:
        standing(rig, "gpu1", "open", ends_at=rig.now + TIMING.longest_life - 1)
        with pytest.raises(PoolFull):
            rig.reserve()
        standing(rig, "gpu1", "open", ends_at=rig.now + TIMING.longest_life)
        assert rig.reserve()["state"] == "reserved"

    def test_what_is_there_when_the_server_ends_is_taken_back(self, rig: MemoryRig) -> None:
        lease = rig.reserve()
        standing(rig, "gpu1", "open", ends_at=rig.now + 10_000)
        rig.pass_time(10_000)
        assert rig.lease(lease)["reason"] == SERVER_LEAVES

    def test_a_time_that_is_over_is_refused_and_the_present_one_is_not(self, rig: MemoryRig) -> None:
        lease = rig.reserve()
        for fields in ({"drain_by": rig.now - DAY}, {"ends_at": rig.now - DAY}):
            with pytest.raises(InvalidRequest, match=r"The time 2027-01-14 .* UTC is over: it is 2027-01-15"):
                standing(rig, "gpu1", "draining", **fields)
        rig.sweep()
        assert rig.state(lease) == "reserved"
        standing(rig, "gpu1", "draining", drain_by=rig.now, ends_at=rig.now + DAY)
        rig.sweep()
        assert rig.state(lease) == "quarantined"
        rig.now += 2 * DAY
        standing(rig, "gpu1", "cordoned", ends_at=rig.now - DAY)  # as it was: other things may be changed

    @pytest.mark.parametrize(("state", "fields"), [("broken", {}), ("open", {"drain_by": 5})])
    def test_what_makes_no_sense_is_refused(self, rig: MemoryRig, state: str, fields: dict[str, int]) -> None:
        with pytest.raises(InvalidRequest):
            standing(rig, "gpu1", state, **fields)


class TestClaims:
    def test_a_gpu_that_another_agent_has_is_refused_by_name(self, rig: MemoryRig) -> None:
        with pytest.raises(Conflict, match="GPU-gpu1-0 is in the pool already, as one of agent gpu1"):
            rig.agent("gpu2", uuids=["GPU-gpu1-0"])
        assert "gpu2" not in rig.ledger.book.agents
        assert rig.reserve()["agent"]["name"] == "gpu1"

    def test_one_that_its_agent_offers_no_more_may_move(self, rig: MemoryRig) -> None:
        rig.agent("gpu1", gpus=0)
        rig.agent("gpu2", uuids=["GPU-gpu1-0"])
        assert rig.reserve()["agent"]["name"] == "gpu2"

    def test_two_of_one_uuid_are_refused(self, rig: MemoryRig) -> None:
        with pytest.raises(ValueError, match="same 'uuid'"):
            rig.agent("gpu2", uuids=["GPU-x", "GPU-x"])


class TestTelling:
    def told(self, rig: MemoryRig, done: int, *, counts_by: str | None = None, full: bool = False) -> Any:
        by = rig.ledger.incarnation if counts_by is None else counts_by
        said = AgentReport(boot_id="1", target_seq=done, incarnation=by, full=full, leases=())
        return rig.read(lambda tx: agent_views.agent_told(tx, "gpu1", said))

    def test_an_agent_is_told_what_came_since_and_the_names_of_the_rest(self, rig: MemoryRig) -> None:
        first = rig.reserve("a.ipynb")
        done = self.told(rig, 0).target_seq
        gone = rig.reserve("b.ipynb")
        rig.release(gone)
        new = rig.reserve("c.ipynb")
        told = self.told(rig, done)
        assert [lease.id for lease in told.changes] == [new["id"]]
        assert told.lives == ((first["id"], first["epoch"], TTL / 1000),)
        assert told.target_seq == done + 3

    def test_one_that_counts_by_another_ledger_or_is_in_doubt_is_told_everything(
        self, rig: MemoryRig
    ) -> None:
        lease = rig.reserve()
        for told in (self.told(rig, 1, counts_by="another"), self.told(rig, 1, full=True)):
            assert [each.id for each in told.leases] == [lease["id"]]
            assert told.incarnation == rig.ledger.incarnation

    def test_what_was_done_of_another_ledger_frees_nothing(self, rig: MemoryRig) -> None:
        lease = rig.reserve()
        rig.release(lease)
        rig.report(counts_by="another")
        assert rig.state(lease) == "draining"
        rig.report()
        assert rig.state(lease) == "released"

    def test_a_restarted_controller_counts_anew(self, rig: MemoryRig) -> None:
        before = rig.ledger.incarnation
        lease = rig.reserve()
        rig.release(lease)
        rig.restart()
        rig.report(counts_by=before)
        assert rig.state(lease) == "draining"

    def test_the_highest_epoch_that_an_agent_has_seen_is_never_given_again(self, rig: MemoryRig) -> None:
        rig.report(epoch=41)
        assert rig.reserve()["epoch"] == 42


class TestAlarms:
    def alarms(self, rig: MemoryRig) -> list[int]:
        return [event.detail["mib"] for event in rig.rows(Event) if event.kind == "outside_memory"]

    def test_memory_outside_all_leases_is_noted_once_until_it_is_gone_or_has_doubled(
        self, rig: MemoryRig
    ) -> None:
        for mib in (100, 150, 199, 200, 250, 0, 50):
            rig.report(outside=[("GPU-gpu1-0", mib)] if mib else [])
        assert self.alarms(rig) == [100, 200, 50]

    def test_of_gpus_that_are_not_its_own_an_agent_can_tell_nothing(self, rig: MemoryRig) -> None:
        rig.report(outside=[("GPU-of-another", 100)])
        assert self.alarms(rig) == []

    def test_what_lives_without_a_slice_is_a_difference(self, rig: MemoryRig) -> None:
        lease = rig.reserve()
        rig.report(alive=[lease])
        assert rig.mismatch() == 0
        rig.report(alive=[lease, {"id": "f" * 32, "epoch": 7}])
        assert rig.read(audit.differences) == [
            f"agent gpu1 ran 1 that hold no slice there, such as {'f' * 32}"
        ]
        rig.report(alive=[lease])
        assert rig.mismatch() == 0

    def test_an_overtaken_report_may_name_what_was_freed_just_now(self, rig: MemoryRig) -> None:
        lease = rig.reserve()
        rig.report(alive=[lease])
        rig.release(lease)
        rig.report()
        rig.report(done=0, alive=[lease])
        assert rig.mismatch() == 0
        rig.now += rig.ledger.timing.agent_ttl + 1
        rig.report(alive=[lease])
        assert rig.mismatch() == 1


class TestLongAndIdle:
    def rules(self, rig: MemoryRig, course: str, **rules: int) -> None:
        account = rig.ledger.book.accounts[course]
        rig.write(lambda tx: tx.put(replace(account, rules=rules)))

    def renew_through(self, rig: MemoryRig, milliseconds: int, *leases: dict[str, Any]) -> None:
        for _ in range(milliseconds // 30_000):
            rig.pass_time(30_000)
            for lease in leases:
                rig.renew(lease, user=lease["user"])

    def test_a_lease_ends_at_the_end_of_its_longest_life_with_a_reason(self, rig: MemoryRig) -> None:
        self.rules(rig, "ml101", longest_life=120)
        lease = rig.reserve()
        self.renew_through(rig, 90_000, lease)
        assert rig.state(lease) == "reserved"
        self.renew_through(rig, 30_000, lease)
        assert (rig.state(lease), rig.lease(lease)["reason"]) == ("quarantined", LIFE_OVER)

    def test_what_is_over_by_its_longest_life_cannot_be_renewed_before_the_sweep(
        self, rig: MemoryRig
    ) -> None:
        self.rules(rig, "ml101", longest_life=30)
        lease = rig.reserve()
        rig.now += 30_000
        assert rig.renew(lease).lost == (Lost(lease["id"], "quarantined", LIFE_OVER),)

    def idle_pool(self, rig: MemoryRig) -> dict[str, Any]:
        self.rules(rig, "cv202", idle=60)
        lease = rig.reserve("idle.ipynb", "1 V100", groups=["cv202"], user="zoe")
        rig.report(alive=[lease])
        return lease

    def test_an_idle_lease_makes_way_for_who_waits(self, rig: MemoryRig) -> None:
        lease = self.idle_pool(rig)
        self.renew_through(rig, 90_000, lease)
        assert rig.state(lease) == "active", "nobody waits for it"
        waiting = rig.reserve(wait=600)
        rig.sweep()
        assert rig.state(lease) == "quarantined"
        assert "run nothing for 1 minutes" in rig.lease(lease)["reason"]
        rig.report()
        assert rig.state(waiting) == "reserved"

    def test_one_that_works_stays(self, rig: MemoryRig) -> None:
        lease = self.idle_pool(rig)
        rig.reserve(wait=600)
        for launches in range(4):
            rig.now += 30_000
            rig.report(alive=[{**lease, "launches": launches}])
            rig.renew(lease, user="zoe")
            rig.sweep()
        assert rig.state(lease) == "active"

    def test_no_more_is_taken_than_it_takes(self, rig: MemoryRig) -> None:
        self.rules(rig, "cv202", idle=60)
        idle = [rig.reserve(f"{n}.ipynb", "0.25 V100", groups=["cv202"], user=f"zoe{n}") for n in range(4)]
        rig.report(alive=idle)
        rig.set_limit("ml101", {"V100": 1000})
        self.renew_through(rig, 60_000, *idle)
        rig.reserve("0.ipynb", "0.3 V100", wait=600)
        for _ in range(3):
            rig.sweep()
        assert sorted(rig.state(lease) for lease in idle) == ["active"] * 2 + ["quarantined"] * 2


def test_a_gpu_offered_again_is_the_same_gpu(rig: MemoryRig) -> None:
    rig.agent(gpus=0)
    rig.agent(gpus=1)
    assert len(rig.ledger.book.gpus) == 1
