"""Promises on a whole ledger, whatever its users do: they only move earlier, and are kept; and a dump replays
every decision.
"""

from __future__ import annotations

import json
import random
from contextlib import suppress

import pytest

from gpu_kernels.errors import PoolError
from gpu_kernels.pool.ledger import Transaction
from gpu_kernels.pool.ledger.queries.dump import dump, load
from gpu_kernels.pool.ledger.queries.scene import ask, scene_of
from gpu_kernels.pool.policy.queue import Decision, decide
from tests.pool.rig import Lease, MemoryRig

COURSES = {"ml101": {"V100": 2500}, "cv202": {"V100": 4000}, "nlp303": {"V100": 4000}}
SIZES = ["0.1 V100", "0.25 V100", "0.5 V100", "1 V100", "2 V100", "8000 MiB"]
IN_FORCE = ("reserved", "active")


def decided(tx: Transaction) -> Decision:
    return decide([ask(tx, lease) for lease in tx.book.waiting], scene_of(tx))


class Crowd:
    """Twelve users who ask, swap kernels, wait and give up, on two servers of two GPUs."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.rig = MemoryRig(COURSES)
        for name in ("gpu1", "gpu2"):
            self.rig.agent(name, gpus=2)
        self.asked = 0

    def act(self) -> None:
        """One of them does something, and some time passes in which all others renew and wait on."""
        user, course = f"u{self.rng.randrange(12)}", self.rng.choice(list(COURSES))
        self.asked += 1
        with suppress(PoolError):
            if self.rng.random() < 0.7:
                self.rig.reserve(
                    f"{self.rng.randrange(3)}.ipynb",
                    self.rng.choice(SIZES),
                    user=user,
                    groups=[course],
                    key=f"key{self.asked}",
                    wait=self.rng.choice([0, 100_000]),
                )
            elif leases := [lease for lease in self.rig.leases() if lease["state"] in (*IN_FORCE, "queued")]:
                lease = self.rng.choice(leases)
                self.rig.release(lease, user=lease["user"])
        self.rig.now += self.rng.choice([0, 1000, 20_000, 29_000])
        self.live_on()

    def live_on(self) -> None:
        self.report()
        for lease in self.rig.leases():
            if lease["state"] in IN_FORCE:
                self.rig.renew(lease, user=lease["user"])
            elif lease["state"] == "queued":
                self.rig.keep_waiting(lease)
        self.rig.sweep()
        self.report()

    def report(self) -> None:
        for name in self.rig.boots:
            self.rig.report(name, alive=[lease for lease in self.rig.leases() if _runs_on(lease, name)])


def _runs_on(lease: Lease, agent: str) -> bool:
    return lease["state"] in IN_FORCE and lease["agent"]["name"] == agent


@pytest.mark.parametrize("seed", range(3))
def test_a_promise_only_moves_earlier_and_is_kept(seed: int) -> None:
    crowd, promised, given = Crowd(seed), dict[str, int](), set[str]()
    rig = crowd.rig
    for _ in range(160):
        crowd.act()
        decision = rig.read(decided)
        for lease, promise in decision.promises.items():
            assert promise.at <= max(promised.get(lease, promise.at), rig.now)
            promised[lease] = promise.at
            given.add(lease)
        promised = {
            lease: at for lease, at in promised.items() if lease in {*decision.promises, *decision.claims}
        }
        assert all(at >= rig.now - 30_000 for at in promised.values())
        assert rig.mismatch() == 0
    assert given


def test_every_decision_replays_from_a_dump() -> None:
    crowd = Crowd(7)
    for step in range(80):
        crowd.act()
        if step % 10 == 9:
            document = json.loads(json.dumps(crowd.rig.read(dump)))
            assert decided(load(document)) == crowd.rig.read(decided)
            crowd.rig.restart()
            crowd.live_on()
