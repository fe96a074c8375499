"""Agents: what they bring, that they restart, fall silent, and are replaced."""

from __future__ import annotations

import pytest

from gpu_kernels.errors import AgentReplaced, Conflict, PoolFull, UnknownAgent
from gpu_kernels.pool.ledger.commands import agent_reports
from gpu_kernels.pool.ledger.commands.registration import GPU_GONE, RESTARTED
from gpu_kernels.pool.ledger.queries import pool_views
from gpu_kernels.resources.agents import AgentReport
from tests.pool.rig import TIMING, Rig

pytestmark = pytest.mark.quick


def test_a_restarted_agent_loses_what_ran_and_keeps_what_was_only_reserved(rig: Rig) -> None:
    active, reserved = rig.reserve("a.ipynb"), rig.reserve("b.ipynb")
    rig.report(alive=[active])
    rig.agent(boot="2")
    assert (rig.state(active), rig.lease(active)["reason"]) == ("quarantined", RESTARTED)
    assert rig.state(reserved) == "reserved"
    assert [target.id for target in rig.target()[1]] == [reserved["id"]]
    rig.report(done=0)
    assert rig.state(active) == "quarantined"
    rig.report()
    assert (rig.state(active), rig.used()) == ("freed", [(655, 20)])


def test_the_same_boot_may_register_again_without_harm(rig: Rig) -> None:
    lease = rig.reserve()
    rig.report(alive=[lease])
    rig.agent(boot="1")
    assert rig.state(lease) == "active"


def test_an_older_process_of_an_agent_is_told_that_it_was_replaced(rig: Rig) -> None:
    rig.agent(boot="2")
    with pytest.raises(AgentReplaced, match="must serve nothing any more"):
        rig.report(boot="1")


def test_an_unknown_agent_is_told_to_register(rig: Rig) -> None:
    rig.boots["gpu9"] = "1"
    with pytest.raises(UnknownAgent, match="register it first"):
        rig.report("gpu9", done=0)


def test_a_report_by_another_tokens_owner_is_not_taken(rig: Rig) -> None:
    with pytest.raises(UnknownAgent):
        rig.write(
            lambda tx: agent_reports.report(
                tx, "gpu1", AgentReport(boot_id="1", target_seq=0, leases=()), owner="mallory"
            )
        )


def test_a_silent_agent_keeps_its_leases_and_gets_no_new_ones(rig: Rig) -> None:
    lease = rig.reserve()
    rig.pass_time(TIMING.agent_ttl, agents_report=False)
    assert rig.state(lease) == "reserved"
    with pytest.raises(PoolFull, match="No GPU server with V100 answers"):
        rig.reserve("b.ipynb")
    assert not rig.read(pool_views.gpus)[0].available
    rig.report(done=0)
    assert rig.reserve("b.ipynb")["state"] == "reserved"


def test_who_waits_for_a_silent_agent_is_served_when_it_speaks_again(rig: Rig) -> None:
    rig.pass_time(TIMING.agent_ttl, agents_report=False)
    waiting = rig.reserve(wait=60)
    assert waiting["state"] == "queued"
    rig.report(done=0)
    assert rig.state(waiting) == "reserved"


def test_a_gpu_that_is_gone_takes_its_leases_with_it(rig: Rig) -> None:
    rig.agent("two", gpus=2)
    rig.set_limit("cv202", {"V100": 5000})
    lease = rig.reserve(size="2 V100", groups=["cv202"])
    rig.agent("two", gpus=1)
    assert (rig.state(lease), rig.lease(lease)["reason"]) == ("quarantined", GPU_GONE)
    rig.report("two")
    assert rig.state(lease) == "freed"
    assert len(rig.read(pool_views.gpus)) == 2


def test_a_gpu_that_was_withdrawn_is_no_others_before_it_is_free(rig: Rig) -> None:
    rig.agent("two", gpus=2)
    rig.set_limit("cv202", {"V100": 5000})
    lease = rig.reserve(size="2 V100", groups=["cv202"])
    rig.agent("two", gpus=1)
    with pytest.raises(Conflict, match="as one of agent two"):
        rig.agent("other", uuids=["GPU-two-1"])
    rig.report("two")
    assert rig.state(lease) == "freed"
    rig.agent("other", uuids=["GPU-two-1"])


def test_a_gpu_that_shrinks_while_in_use_stays_counted_and_shrinks_when_it_is_free(rig: Rig) -> None:
    lease = rig.reserve(size="0.9 V100", groups=["cv202"])
    rig.agent(mib=16384)
    gpu = rig.read(pool_views.gpus)[0]
    assert gpu.allocatable_mib == gpu.used_mib == lease["slices"][0]["mib"]
    with pytest.raises(PoolFull):
        rig.reserve("b.ipynb", "0.02 V100")
    rig.release(lease)
    rig.report()
    assert rig.read(pool_views.gpus)[0].allocatable_mib == 16384


def test_a_gpu_that_changes_its_class_while_in_use_changes_when_it_is_free(rig: Rig) -> None:
    lease = rig.reserve()
    rig.agent(gpu_class="A100")
    assert rig.state(lease) == "quarantined"
    assert rig.read(pool_views.gpus)[0].gpu_class == "V100"
    rig.report()
    gpu = rig.read(pool_views.gpus)[0]
    assert (gpu.gpu_class, gpu.available) == ("A100", True)


def test_an_inventory_of_another_epoch_activates_nothing(rig: Rig) -> None:
    lease = rig.reserve()
    rig.report(alive=[{**lease, "epoch": 99}])
    assert rig.state(lease) == "reserved"
    assert rig.mismatch() == 1, "what runs there holds no slice"
    rig.report()


def test_an_agent_that_counts_by_another_ledger_frees_nothing(rig: Rig) -> None:
    lease = rig.reserve()
    rig.release(lease)
    rig.report(done=10_000)
    assert rig.state(lease) == "draining"
    rig.report()
    assert rig.state(lease) == "released"


def test_the_use_that_an_agent_reports_is_told_with_the_lease(rig: Rig) -> None:
    lease = rig.reserve()
    rig.report(alive=[lease])
    use = {"used_mib": 10, "peak_mib": 20, "sessions": 1, "launches": 5, "idle": 0.0}
    assert rig.lease(lease)["use"] == use
