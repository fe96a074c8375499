"""Expiry: on time, and never because the controller itself was away."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_kernels.errors import LedgerUnavailable
from gpu_kernels.pool.app import PoolController
from gpu_kernels.pool.ledger.clock_guard import STEP_MS, ClockGuard
from gpu_kernels.pool.ledger.commands.sweep import sweep
from gpu_kernels.pool.service.desk import Desk
from gpu_kernels.pool.service.metrics import Metrics
from gpu_kernels.pool.service.sweeper import Sweeper
from gpu_kernels.pool.service.waiting import Bells, lease_topic, rung
from tests.pool.rig import TTL, Rig

pytestmark = pytest.mark.quick


class Clockwork:
    """A sweeper whose own clock and the database's are set by the test."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.here = 0.0
        self.bells = Bells()
        self.desk = Desk(rig.ledger, self.bells)
        self.sweeper = Sweeper(self.desk, Metrics(), 1.0, 90.0, monotonic=lambda: self.here)
        rig.ledger.clock_guard = ClockGuard(1000, TTL, monotonic=lambda: self.here)

    async def pass_time(self, milliseconds: int, *, database: int | None = None) -> int:
        self.here += milliseconds / 1000
        self.rig.now += milliseconds if database is None else database
        return await self.sweeper.once()


async def test_a_lease_ends_when_its_time_is_over(rig: Rig) -> None:
    clockwork = Clockwork(rig)
    lease = rig.reserve()
    await clockwork.pass_time(0)
    for _ in range(3):
        assert await clockwork.pass_time(TTL // 4) == 0
    assert await clockwork.pass_time(TTL // 4) == 1
    assert rig.state(lease) == "quarantined"


async def test_a_clock_that_is_set_forward_ends_nothing(rig: Rig) -> None:
    clockwork = Clockwork(rig)
    lease = rig.reserve()
    await clockwork.pass_time(0)
    assert await clockwork.pass_time(1000, database=3_600_000) == 0
    assert rig.lease(lease)["expires_in"] == TTL / 1000 - 1
    assert await clockwork.pass_time(1000, database=1000 + STEP_MS) == 0
    assert rig.state(lease) == "reserved"


async def test_a_controller_that_was_stopped_for_a_while_ends_nothing(rig: Rig) -> None:
    clockwork = Clockwork(rig)
    lease = rig.reserve()
    await clockwork.pass_time(0)
    assert await clockwork.pass_time(10 * TTL) == 0
    assert rig.state(lease) == "reserved"
    for _ in range(4):
        await clockwork.pass_time(TTL // 4)
    assert rig.state(lease) == "quarantined"


async def test_those_who_wait_are_woken_by_the_change(rig: Rig) -> None:
    clockwork = Clockwork(rig)
    lease = rig.reserve()
    await clockwork.pass_time(0)
    with clockwork.bells.at(lease_topic(lease["id"]), "ada") as bell:
        for _ in range(4):
            await clockwork.pass_time(TTL // 4)
        assert await rung(bell, 10)
        assert not await rung(bell, 0.01)


async def test_more_requests_than_the_ledger_can_take_are_refused_at_once(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("gpu_kernels.pool.service.desk.MOST_WAITING", 0)
    with pytest.raises(LedgerUnavailable, match="more requests than it can handle"):
        await Clockwork(rig).desk.write(lambda tx: None)


async def test_a_sweeper_that_always_comes_too_late_still_ends_what_nobody_renews(rig: Rig) -> None:
    clockwork = Clockwork(rig)
    lease = rig.reserve()
    await clockwork.pass_time(0)
    sweeps = 0
    while rig.state(lease) == "reserved":
        await clockwork.pass_time(TTL)
        sweeps += 1
    assert sweeps <= TTL // 1000 + 1


async def test_a_clock_that_jumps_at_every_look_still_ends_what_nobody_renews(rig: Rig) -> None:
    clockwork = Clockwork(rig)
    lease = rig.reserve()
    await clockwork.pass_time(0)
    sweeps = 0
    while rig.state(lease) == "reserved":
        await clockwork.pass_time(1000, database=3_600_000)
        sweeps += 1
    assert sweeps == TTL // 1000


async def test_a_clock_that_is_set_back_keeps_nothing_alive(rig: Rig) -> None:
    clockwork = Clockwork(rig)
    lease = rig.reserve()
    await clockwork.pass_time(0)
    await clockwork.pass_time(1000, database=-86_400_000)
    assert rig.lease(lease)["expires_in"] == TTL / 1000 - 1
    for _ in range(4):
        await clockwork.pass_time(TTL // 4)
    assert rig.state(lease) == "quarantined"


async def test_a_renewal_that_comes_before_the_sweep_after_a_pause_is_in_time(rig: Rig) -> None:
    clockwork = Clockwork(rig)
    lease = rig.reserve()
    await clockwork.pass_time(0)
    clockwork.here += 10 * TTL / 1000
    rig.now += 10 * TTL
    assert rig.renew(lease).left == {lease["id"]: TTL / 1000}


@pytest.mark.parametrize("seconds", [0.5, 1.0, 1.5, 4.0, 60.0])
def test_the_chosen_interval_lets_leases_of_any_time_to_live_end(rig: Rig, seconds: float) -> None:
    app = PoolController(lease_ttl=seconds)
    app.check_times()
    rig.ledger.timing = app.timing()
    here = 0.0
    rig.ledger.clock_guard = ClockGuard(
        app.sweep_interval * 1000, app.timing().lease_ttl, monotonic=lambda: here
    )
    lease = rig.reserve()
    for _ in range(100):
        here += app.sweep_interval
        rig.now += int(app.sweep_interval * 1000)
        rig.write(sweep)
        if rig.state(lease) != "reserved":
            break
    assert here <= seconds + app.sweep_interval


def test_a_replaced_lease_is_not_ended_by_its_own_renewal(rig: Rig) -> None:
    rig.set_limit("ml101", {"V100": 1000})
    old = rig.reserve(key="old")
    rig.reserve(key="new")
    rig.now += 10 * TTL
    rig.restart()
    assert rig.renew(old).left == {old["id"]: TTL / 1000}
