"""A second lease for a slot: a change of kernel works at the limit, and nobody multiplies slices by it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_kernels.errors import CourseLimit, PoolError
from gpu_kernels.pool.ledger.queries.explanation import explain
from gpu_kernels.pool.ledger.queries.times import iso
from gpu_kernels.pool.ledger.state.states import HOLDING
from tests.pool.rig import TTL, Lease, Rig


def test_a_change_of_kernel_at_the_limit_is_granted_while_the_old_one_still_runs(rig: Rig) -> None:
    old = rig.reserve(size="0.1 V100")
    new = rig.reserve(size="0.09 V100")
    assert (rig.state(old), rig.state(new)) == ("reserved", "reserved")
    rig.release(old)
    assert (rig.state(old), rig.state(new)) == ("draining", "reserved")


def test_a_slot_counts_once_as_the_larger_of_its_two_leases(rig: Rig) -> None:
    rig.reserve(size="0.02 V100")
    rig.reserve(size="0.04 V100")
    rig.reserve("b.ipynb", "0.06 V100", user="bob")
    with pytest.raises(CourseLimit, match=r"holds 0\.1 of 0\.1"):
        rig.reserve("c.ipynb", "0.001 V100", user="bob")


def test_a_replaced_lease_lives_no_longer_than_one_time_to_live(rig: Rig) -> None:
    old = rig.reserve(size="0.02 V100")
    new = rig.reserve(size="0.04 V100")
    rig.pass_time(TTL - 10)
    renewal = rig.renew(old, new)
    assert renewal.left == {old["id"]: 0.01, new["id"]: TTL / 1000}
    rig.pass_time(10)
    assert (rig.state(old), rig.state(new)) == ("quarantined", "reserved")
    assert rig.lease(old)["reason"].startswith("Replaced")


def test_when_the_new_kernel_fails_to_start_the_old_lease_is_the_slots_again(rig: Rig) -> None:
    old = rig.reserve(size="0.02 V100", key="old")
    new = rig.reserve(size="0.04 V100", key="new")
    rig.release(new)
    rig.pass_time(TTL - 1)
    assert rig.renew(old).left == {old["id"]: TTL / 1000}
    assert rig.reserve(size="0.02 V100", key="old")["id"] == old["id"]


def test_a_second_change_within_the_rest_ends_the_old_lease_at_once(rig: Rig) -> None:
    first = rig.reserve(size="0.02 V100")
    second = rig.reserve(size="0.03 V100")
    third = rig.reserve(size="0.04 V100")
    assert [rig.state(lease) for lease in (first, second, third)] == ["draining", "draining", "reserved"]


def test_a_change_at_the_limit_within_the_rest_waits_for_the_old_ones_slice(rig: Rig) -> None:
    rig.reserve(size="0.1 V100")
    second = rig.reserve(size="0.09 V100")
    rig.report()
    with pytest.raises(CourseLimit):
        rig.reserve(size="0.08 V100")
    assert rig.state(second) == "reserved"
    third = rig.reserve(size="0.08 V100", wait=10)
    assert (rig.state(second), rig.state(third)) == ("draining", "queued")
    rig.report()
    assert rig.state(third) == "reserved"


def test_a_change_in_a_full_pool_keeps_its_turn(rig: Rig) -> None:
    old = rig.reserve(size="1 V100", groups=["cv202"], user="ada")
    rig.now += 1
    other = rig.reserve(user="bob", wait=60)
    rig.now += 1
    new = rig.reserve(size="0.99 V100", groups=["cv202"], user="ada", wait=60)
    assert (rig.state(old), new["position"], rig.lease(other)["position"]) == ("draining", 1, 2)
    rig.report()
    assert rig.state(new) == "reserved"


def test_a_larger_one_in_a_full_pool_jumps_no_queue_and_costs_nothing(rig: Rig) -> None:
    rig.reserve("x.ipynb", "0.9 V100", groups=["cv202"], user="zoe")
    old = rig.reserve(size="0.1 V100", user="ada")
    rig.now += 1
    rig.set_limit("ml101", {"V100": 200})
    other = rig.reserve(user="bob", wait=60, size="0.05 V100")
    assert other["state"] == "queued"
    new = rig.reserve(size="0.2 V100", user="ada", wait=60)
    assert (rig.state(old), new["position"]) == ("reserved", 2)


def ends_at(rig: Rig, lease: Lease) -> str:
    return iso(rig.read(lambda tx: tx.book.leases[lease["id"]].ends_at or 0))


def promised_for(rig: Rig, lease: Lease) -> str | None:
    return rig.read(lambda tx: explain(tx, tx.book.leases[lease["id"]]).promised_for)


def test_a_change_of_kernel_does_not_put_off_what_others_are_promised(rig: Rig) -> None:
    rig.set_limit("cv202", {"V100": 3000})
    rig.reserve(size="0.5 V100", groups=["cv202"], user="ada")
    second = rig.reserve(size="0.49 V100", groups=["cv202"], user="ada")
    rig.report()
    large = rig.reserve("big.ipynb", "1 V100", groups=["cv202"], user="zoe", wait=600)
    for _ in range(3):
        rig.pass_time(20_000)
        rig.renew(second)
        rig.keep_waiting(large)
    rig.report(alive=[second])  # the first one's slice is free
    rig.now += 1
    assert promised_for(rig, large) == ends_at(rig, second)
    third = rig.reserve(size="0.48 V100", groups=["cv202"], user="ada", wait=60)
    assert (rig.state(second), rig.state(third)) == ("draining", "reserved")
    rig.report(alive=[third])
    assert ends_at(rig, third) == ends_at(rig, second) == promised_for(rig, large)


class Swapper:
    """Students who try to hold more than their course may: many slots, many kernels, all kept alive."""

    def __init__(self, rig: Rig, users: int) -> None:
        self.rig = rig
        self.users = [f"student{number}" for number in range(users)]
        self.count = 0

    def swap(self, user: int, slot: int, thousandths: int, wait: int) -> None:
        self.count += 1
        name = self.users[user % len(self.users)]
        size = f"{thousandths}/1000 V100"
        with suppress(PoolError):
            self.rig.reserve(f"{slot}.ipynb", size, user=name, key=str(self.count), wait=wait)

    def release(self, which: int) -> None:
        leases = self.rig.leases()
        if leases:
            self.rig.release(leases[which % len(leases)])

    def keep_everything(self) -> None:
        for lease in self.rig.leases():
            if lease["state"] == "queued":
                self.rig.keep_waiting(lease)
            else:
                self.rig.renew(lease, user=lease["user"])

    def held(self) -> int:
        return sum(
            part["thousandths"]
            for lease in self.rig.leases()
            if lease["state"] in HOLDING
            for part in lease["slices"]
        )


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("swap"),
            st.integers(0, 2),
            st.integers(0, 3),
            st.integers(1, 100),
            st.sampled_from([0, 30]),
        ),
        st.tuples(st.just("release"), st.integers(0, 20)),
        st.tuples(st.just("report")),
        st.tuples(st.just("keep"), st.integers(1, TTL)),
    ),
    min_size=5,
    max_size=40,
)


@settings(max_examples=30, deadline=None)
@given(steps, st.integers(1, 3))
def test_swapping_never_holds_more_than_the_limit_and_one_lease_a_user(
    actions: list[tuple[str, ...]], users: int
) -> None:
    with TemporaryDirectory() as folder:
        rig = Rig(Path(folder) / "ledger.sqlite")
        rig.agent()
        swapper = Swapper(rig, users)
        for name, *arguments in actions:
            if name == "keep":
                swapper.keep_everything()
                rig.pass_time(int(arguments[0]))
            elif name == "report":
                rig.report()
            else:
                getattr(swapper, name)(*arguments)
            assert swapper.held() <= 100 + users * 100
            overlapping = [lease for lease in rig.leases() if lease["state"] in ("reserved", "active")]
            per_slot = [(lease["user"], lease["slot"]["path"]) for lease in overlapping]
            assert max(map(per_slot.count, per_slot), default=0) <= 2
            doubled = {user for user, path in per_slot if per_slot.count((user, path)) == 2}
            assert len(per_slot) - len(set(per_slot)) == len(doubled)
        assert rig.mismatch() == 0
        rig.close()


def test_a_swapper_gains_one_overlap_in_ten_times_to_live(rig: Rig) -> None:
    """Held beyond the limit, summed over time: at most one time to live's worth in each rest."""
    swapper = Swapper(rig, 1)
    beyond = 0
    for step in range(60):
        swapper.swap(0, step % 2, 90 + step % 2, 30)
        rig.report()
        swapper.keep_everything()
        for _ in range(4):
            beyond += max(0, swapper.held() - 100) * (TTL // 4)
            rig.pass_time(TTL // 4)
            swapper.keep_everything()
    assert 0 < beyond <= 100 * TTL * (60 // 10 + 1)
