"""Random walks of an attachment over a real pool: in whatever order it is asked, nothing is left over."""

from __future__ import annotations

import random

import pytest

from gpu_kernels.client import Slot
from gpu_kernels.client.keeper import KEEPER
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.errors import PoolError
from gpu_kernels.provisioner.attachment import Attachment
from tests.provisioner.pool import settled, wait_until

SIZES = ("0.02 V100", "0.05 V100", "0.3 V100", "0.9 V100", "0.1 H900")
STEPS = 25


class Walk:
    def __init__(self, pool, seed: int) -> None:
        self.pool = pool
        self.random = random.Random(seed)
        self.attachment = Attachment("kernel-1", lambda: True)
        self.attachment.ask(LeaseRequest(SIZES[0], Slot("", "a"), f"w{seed}", "kernel-1"))
        self.others: list[str] = []

    def step(self) -> None:
        self.random.choice(
            [
                self.attachment.want,
                self.attachment.want,
                lambda: self.attachment.attach(self.random.choice(SIZES)),
                lambda: self.attachment.attach(self.random.choice(SIZES)),
                self.attachment.release,
                self.attachment.keep,
                self.attachment.restarting,
                self.revoke,
                self.another_comes,
                self.another_goes,
            ]
        )()
        if self.random.random() < 0.6:
            settled(self.attachment, 0.5)

    def mine(self) -> list:
        return [lease for lease in self.pool.leases() if lease.holder == "kernel-1"]

    def revoke(self) -> None:
        for lease in self.mine():
            if lease.in_force:
                self.pool.admin.revoke(lease.id, "the test says so")

    def another_comes(self) -> None:
        name = f"other-{len(self.others)}"
        try:
            lease = self.pool.student.ask("0.6 V100", key=name, slot=Slot("", name), holder=name)
        except PoolError:
            return
        self.others.append(lease.id)

    def another_goes(self) -> None:
        if self.others:
            self.pool.admin.revoke(self.others.pop(), "the test says so")


def living(lease) -> bool:
    return lease.queued or lease.in_force


@pytest.mark.parametrize("seed", range(4))
def test_a_kernel_has_one_slice_at_most_and_leaves_nothing(pool, seed):
    pool.limit(5000)
    walk = Walk(pool, seed)
    for _ in range(STEPS):
        walk.step()
        view = walk.attachment.view()
        assert view.state != "attached" or view.lease.in_force
    view = settled(walk.attachment, 0.5)

    def quiet() -> bool:
        """What the pool has of the kernel is what the attachment says, once what it gave back has ended."""
        now = walk.attachment.view()
        known = {lease.id for lease in (now.lease,) if lease is not None}
        return len(known) + (now.state == "attached" and now.place is not None) >= sum(
            map(living, walk.mine())
        )

    wait_until(quiet)
    while walk.others:
        walk.another_goes()
    if view.state == "waiting":
        assert settled(walk.attachment, 30).state in ("attached", "refused")
    walk.attachment.end()
    wait_until(lambda: not any(map(living, walk.mine())))
    assert KEEPER.keeps() == []
    walk.attachment.want()
    assert not any(map(living, walk.mine()))
