"""Those who wait: order, positions, giving up, and that nobody overtakes."""

from __future__ import annotations

import pytest

from gpu_kernels.errors import CourseLimit, NoSuchClass, PoolFull
from gpu_kernels.pool.ledger.commands.termination import NOTHING_FREE, STOPPED_ASKING
from tests.pool.rig import TIMING, Lease, Rig

pytestmark = pytest.mark.quick


@pytest.fixture
def full(rig: Rig) -> Lease:
    """The whole pool, held by one lease of another course."""
    return rig.reserve("all.ipynb", "1 V100", user="zoe", groups=["cv202"])


def test_who_waits_is_served_in_order_when_a_slice_comes_back(rig: Rig, full: Lease) -> None:
    waiting = []
    for number in range(7):
        rig.now += 1
        waiting.append(rig.reserve(user=f"student{number}", wait=60))
    assert [rig.lease(lease)["position"] for lease in waiting] == [1, 2, 3, 4, 5, 6, 7]
    rig.release(full)
    assert {rig.state(lease) for lease in waiting} == {"queued"}
    rig.report()
    assert [rig.state(lease) for lease in waiting] == ["reserved"] * 5 + ["queued"] * 2
    assert [rig.lease(lease)["position"] for lease in waiting[5:]] == [1, 2]
    rig.release(waiting[0])
    rig.report()
    assert rig.state(waiting[5]) == "reserved"


def waits_long(rig: Rig, lease: Lease, *others: Lease) -> None:
    """So long that nobody may overtake it any more."""
    for _ in range(2):
        rig.pass_time(30_000)
        rig.renew(*others, user="zoe")
        rig.keep_waiting(lease)
    rig.sweep()


def test_small_requests_overtake_a_large_one_until_it_has_waited_long(rig: Rig) -> None:
    half = rig.reserve("half.ipynb", "0.5 V100", user="zoe", groups=["cv202"])
    rig.set_limit("cv202", {"V100": 3000})
    large = rig.reserve("big.ipynb", "1 V100", user="yan", groups=["cv202"], wait=600)
    rig.release(rig.reserve())
    rig.report(alive=[half])
    waits_long(rig, large, half)
    with pytest.raises(PoolFull, match="promised to others who asked earlier"):
        rig.reserve()
    rig.release(large)
    assert rig.reserve()["state"] == "reserved"


def test_requests_of_the_same_millisecond_keep_their_order(rig: Rig, full: Lease) -> None:
    waiting = [rig.reserve(user=f"student{number}", wait=60) for number in range(9)]
    assert [rig.lease(lease)["position"] for lease in waiting] == list(range(1, 10))


def test_what_can_never_be_granted_does_not_wait(rig: Rig, full: Lease) -> None:
    with pytest.raises(NoSuchClass):
        rig.reserve(size="1 T4", wait=60)
    with pytest.raises(CourseLimit):
        rig.reserve(size="0.5 V100", wait=60)


def test_who_waits_for_the_course_gets_what_a_classmate_gives_back(rig: Rig) -> None:
    old = rig.reserve(size="0.1 V100")
    new = rig.reserve("b.ipynb", user="bob", wait=60, wait_for_course=True)
    assert (rig.state(new), new["position"]) == ("queued", 1)
    rig.release(old)
    rig.report()
    assert rig.state(new) == "reserved"


def test_nobody_waits_for_what_the_course_may_never_hold_nor_without_a_time(rig: Rig) -> None:
    rig.reserve(size="0.1 V100")
    for refused in ({"size": "0.2 V100", "wait": 60}, {"size": "0.02 V100"}):
        with pytest.raises(CourseLimit):
            rig.reserve("b.ipynb", user="bob", wait_for_course=True, **refused)


def test_a_course_at_its_limit_is_told_so_and_does_not_wait(rig: Rig) -> None:
    rig.reserve(size="0.1 V100")
    with pytest.raises(CourseLimit):
        rig.reserve(user="bob", wait=60)


def test_a_queued_request_ends_when_its_owner_stops_asking(rig: Rig, full: Lease) -> None:
    lease = rig.reserve(wait=600)
    for _ in range(3):
        rig.renew(full, user="zoe")
        rig.pass_time(TIMING.queue_ttl - 1)
        rig.keep_waiting(lease)
    assert rig.state(lease) == "queued"
    rig.pass_time(TIMING.queue_ttl)
    ended = rig.lease(lease)
    assert (ended["state"], ended["reason"]) == ("expired", STOPPED_ASKING)


def test_a_queued_request_ends_when_its_time_to_wait_is_over(rig: Rig, full: Lease) -> None:
    lease = rig.reserve(wait=20)
    rig.pass_time(19_999)
    assert rig.state(lease) == "queued"
    rig.pass_time(1)
    assert (rig.state(lease), rig.lease(lease)["reason"]) == ("expired", NOTHING_FREE)


def test_the_end_of_a_promise_lets_those_behind_it_through(rig: Rig) -> None:
    half = rig.reserve("half.ipynb", "0.5 V100", user="zoe", groups=["cv202"])
    rig.set_limit("cv202", {"V100": 3000})
    large = rig.reserve("big.ipynb", "1 V100", user="yan", groups=["cv202"], wait=80)
    waits_long(rig, large, half)
    small = rig.reserve(wait=600)
    assert (rig.state(large), rig.state(small)) == ("queued", "queued")
    rig.pass_time(20_000)
    assert (rig.state(large), rig.state(small)) == ("expired", "reserved")


def test_giving_up_leaves_the_queue_at_once(rig: Rig, full: Lease) -> None:
    lease = rig.reserve(wait=60)
    rig.release(lease)
    assert rig.state(lease) == "released"
    rig.release(full)
    rig.report()
    assert rig.state(lease) == "released"
    assert rig.used() == [(0, 0)]


def test_asking_again_keeps_the_place_in_the_queue(rig: Rig, full: Lease) -> None:
    first = rig.reserve(user="ada", wait=60)
    rig.now += 1
    rig.reserve(user="bob", wait=60)
    rig.now += 1
    again = rig.reserve(user="ada", wait=60, holder="kernel-2")
    assert (again["id"], again["position"], again["holder"]) == (first["id"], 1, "kernel-2")


def test_a_newer_request_for_the_same_notebook_takes_the_older_ones_stead(rig: Rig, full: Lease) -> None:
    first = rig.reserve(size="0.02 V100", wait=60)
    second = rig.reserve(size="0.04 V100", wait=60)
    assert (rig.state(first), rig.state(second)) == ("released", "queued")


def test_the_queue_survives_a_restart(rig: Rig, full: Lease) -> None:
    first = rig.reserve(user="ada", wait=600)
    rig.now += 1
    second = rig.reserve(user="bob", wait=600)
    rig.now += 40_000
    rig.restart()
    rig.pass_time(40_000)
    assert [rig.lease(lease)["position"] for lease in (first, second)] == [1, 2]


def test_who_waits_and_asks_for_less_keeps_the_place_and_the_time(rig: Rig, full: Lease) -> None:
    first = rig.reserve(size="0.04 V100", user="ada", wait=600)
    rig.now += 1000
    other = rig.reserve(size="0.04 V100", user="bob", wait=600)
    rig.now += 1000
    less = rig.reserve(size="0.02 V100", user="ada", wait=600)
    assert (rig.state(first), less["position"], rig.lease(other)["position"]) == ("released", 1, 2)
    assert less["created_at"] == first["created_at"]
    same = rig.reserve(size="0.02 V100", user="ada", wait=600, key="another tab")
    assert (rig.state(less), same["position"], same["created_at"]) == ("released", 1, first["created_at"])


@pytest.mark.parametrize(
    ("held", "asked"),
    [("0.02 V100", "0.04 V100"), ("0.04 V100", "0.02 GPU"), ("0.04 V100", "100 MiB V100")],
    ids=["more", "other classes too", "not comparable"],
)
def test_who_waits_and_asks_for_what_others_did_not_reckon_with_goes_to_the_end(
    rig: Rig, full: Lease, held: str, asked: str
) -> None:
    first = rig.reserve(size=held, user="ada", wait=600)
    rig.now += 1000
    other = rig.reserve(size="0.04 V100", user="bob", wait=600)
    rig.now += 1000
    new = rig.reserve(size=asked, user="ada", wait=600)
    assert (rig.state(first), rig.lease(other)["position"], new["position"]) == ("released", 1, 2)


def test_who_holds_a_promise_and_asks_for_less_is_promised_it(rig: Rig) -> None:
    half = rig.reserve("half.ipynb", "0.5 V100", user="zoe", groups=["cv202"])
    rig.set_limit("cv202", {"V100": 3000})
    large = rig.reserve("big.ipynb", "1 V100", user="yan", groups=["cv202"], wait=600)
    waits_long(rig, large, half)
    less = rig.reserve("big.ipynb", "0.9 V100", user="yan", groups=["cv202"], wait=600)
    small = rig.reserve(size="0.2 V100", user="ada", groups=["cv202"], wait=600)
    assert (rig.state(large), rig.state(less), rig.state(small)) == ("released", "queued", "queued")
    rig.release(half, user="zoe")
    rig.report()
    assert (rig.state(less), rig.state(small)) == ("reserved", "queued")


def test_a_refused_change_of_size_leaves_the_place(rig: Rig, full: Lease) -> None:
    first = rig.reserve(size="0.04 V100", user="ada", wait=600)
    with pytest.raises(CourseLimit):
        rig.reserve(size="0.5 V100", user="ada", wait=600)
    assert (rig.state(first), rig.lease(first)["position"]) == ("queued", 1)
