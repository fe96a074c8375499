"""Expiry: on time, and never because the controller itself was away."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_kernels.errors import LedgerUnavailable
from gpu_kernels.pool.service.desk import Desk
from gpu_kernels.pool.service.metrics import Metrics
from gpu_kernels.pool.service.sweeper import STEP_MS, Sweeper
from gpu_kernels.pool.service.waiting import Bells, lease_topic, rung
from tests.pool.rig import TTL, Rig


class Clockwork:
    """A sweeper whose own clock and the database's are set by the test."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.here = 0.0
        self.bells = Bells()
        self.desk = Desk(rig.ledger, self.bells)
        self.sweeper = Sweeper(self.desk, Metrics(), 1.0, 90.0, monotonic=lambda: self.here)

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
    assert rig.lease(lease)["expires_in"] == TTL / 1000
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
    with clockwork.bells.at(lease_topic(lease["id"])) as bell:
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
