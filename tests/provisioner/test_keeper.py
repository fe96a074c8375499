"""The keeper: one call renews all leases, an outage loses none, and it ends when nothing is left."""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass, field

import pytest

from gpu_kernels.client import Lease, Lost, Renewal, Renewed, Slot
from gpu_kernels.client.keeper import Keeper
from gpu_kernels.client.lease_holder import LeaseHolder, State
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.errors import PoolUnavailable
from tests.provisioner.conftest import forget_all


@dataclass
class PoolThatRenews:
    """Renews everything but what it was told is gone; ``renewals`` counts down as calls come in."""

    gone: dict[str, Lost] = field(default_factory=dict)
    calls: list[list[tuple[str, int]]] = field(default_factory=list)
    called: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def renew(self, leases):
        self.calls.append(list(leases))
        self.called.release()
        lost = tuple(self.gone[lease_id] for lease_id, _ in leases if lease_id in self.gone)
        lives = tuple(Renewed(lease_id, 60.0) for lease_id, _ in leases if lease_id not in self.gone)
        return Renewal(lives, lost)


class PoolThatIsAway(PoolThatRenews):
    def renew(self, leases):
        super().renew(leases)
        raise PoolUnavailable("The GPU pool does not answer (no connection).")


class Needed(LeaseHolder):
    """Holds a lease, as long as it is ``needed``."""

    def __init__(self, lease_id: str, ttl: float = 3600.0, epoch: int = 1, needed: bool = True) -> None:
        super().__init__(LeaseRequest("1 V100", Slot("", "a"), "key", "kernel"), wanted=lambda: self.needed)
        self.needed = needed
        self.losses: list[tuple[str, str]] = []
        self.on_lost = lambda _: self.losses.append((self.loss.state, self.loss.reason))
        self.lease, self.state = lease(lease_id, ttl, epoch), State.HELD
        self.tries()


def lease(lease_id: str, ttl: float, epoch: int) -> Lease:
    """One in force, of which nothing else matters here."""
    known = dict.fromkeys(Lease.__struct_fields__)
    return Lease(**{**known, "id": lease_id, "ttl": ttl, "epoch": epoch, "state": "active"})


def stop(keeper: Keeper) -> None:
    threads = keeper.threads()
    forget_all(keeper)
    for thread in threads:
        thread.join(60)
    assert keeper.threads() == []


@pytest.fixture
def keeper():
    keeper = Keeper()
    yield keeper
    stop(keeper)


def test_one_call_renews_all_leases_of_a_client(keeper):
    pool = PoolThatRenews()
    holders = [Needed(name, epoch=ord(name)) for name in "abc"]
    for holder in holders:
        keeper.keep(pool, holder)
    keeper.round()
    assert pool.calls == [[("a", 97), ("b", 98), ("c", 99)]]
    assert all(holder.trusted_for > 0 for holder in holders)


def test_the_thread_renews_by_itself_before_the_life_of_the_shortest_lease_is_over(keeper):
    pool = PoolThatRenews()
    keeper.keep(pool, Needed("long"))
    keeper.keep(pool, Needed("short", ttl=2.0))
    assert pool.called.acquire(timeout=60)
    assert pool.called.acquire(timeout=60)


def test_the_thread_ends_when_nothing_is_left_and_starts_again(keeper):
    pool = PoolThatRenews()
    keeper.keep(pool, Needed("a"))
    assert keeper.threads()
    stop(keeper)
    keeper.keep(pool, Needed("b"))
    assert keeper.threads()


def test_a_lost_lease_is_told_once_and_kept_no_longer(keeper):
    pool = PoolThatRenews(gone={"a": Lost("a", "revoked", "maintenance")})
    a, b = Needed("a"), Needed("b")
    keeper.keep(pool, a)
    keeper.keep(pool, b)
    keeper.round()
    keeper.round()
    assert a.losses == [("revoked", "maintenance")]
    assert b.losses == []
    assert pool.calls[1] == [("b", 1)]


def test_a_lease_that_nobody_needs_is_left_to_expire(keeper):
    pool = PoolThatRenews()
    dead = Needed("dead", needed=False)
    keeper.keep(pool, dead)
    keeper.round()
    assert pool.calls == []
    assert keeper.keeps() == []
    assert dead.losses == []


def test_a_lease_given_back_during_the_call_is_not_reported_lost(keeper):
    a = Needed("a")

    class PoolThatIsOvertaken(PoolThatRenews):
        def renew(self, leases):
            keeper.forget(a)
            return super().renew(leases)

    keeper.keep(PoolThatIsOvertaken(gone={"a": Lost("a", "draining", "")}), a)
    keeper.round()
    assert a.losses == []


def hold_twice(keeper: Keeper, pool: PoolThatRenews) -> list[Needed]:
    """Two kernels that hold one lease."""
    holders = [Needed("a"), Needed("a")]
    for holder in holders:
        keeper.keep(pool, holder)
    return holders


@pytest.mark.parametrize("first_to_let_go", [0, 1])
def test_a_lease_that_two_kernels_hold_is_kept_until_both_have_let_go(keeper, first_to_let_go):
    pool = PoolThatRenews()
    holders = hold_twice(keeper, pool)
    keeper.forget(holders.pop(first_to_let_go))
    assert keeper.keeps() == ["a"]
    keeper.round()
    assert pool.calls == [[("a", 1)]]
    keeper.forget(holders.pop())
    assert keeper.keeps() == []


@pytest.mark.parametrize("dead", [0, 1])
def test_a_lease_that_two_kernels_hold_is_renewed_once_and_while_one_of_them_lives(keeper, dead):
    pool = PoolThatRenews()
    holders = hold_twice(keeper, pool)
    keeper.round()
    holders[dead].needed = False
    keeper.round()
    assert pool.calls == [[("a", 1)], [("a", 1)]]


def test_both_kernels_that_hold_a_lease_are_told_once_that_it_is_lost(keeper):
    pool = PoolThatRenews(gone={"a": Lost("a", "revoked", "maintenance")})
    holders = hold_twice(keeper, pool)
    keeper.round()
    keeper.round()
    assert [holder.losses for holder in holders] == [[("revoked", "maintenance")]] * 2


def test_an_outage_loses_no_lease_and_is_logged_when_it_begins_and_when_it_ends(keeper, caplog):
    caplog.set_level(logging.INFO, "gpu_kernels")
    pool = PoolThatIsAway()
    keeper.keep(pool, Needed("a"))
    for _ in range(3):
        keeper.round()
    pool.__class__ = PoolThatRenews
    keeper.round()
    keeper.round()
    assert keeper.keeps() == ["a"]
    said = [record.getMessage() for record in caplog.records]
    assert [text for text in said if "renew" in text] == [  # others log too
        "Cannot renew 1 GPU lease(s), will go on trying: The GPU pool does not answer (no connection).",
        "GPU leases are renewed again.",
    ]


def test_one_pool_that_is_away_does_not_keep_another_from_being_asked(keeper):
    here, away = PoolThatRenews(), PoolThatIsAway()
    keeper.keep(away, Needed("a"))
    keeper.keep(here, Needed("b"))
    keeper.round()
    assert here.calls == [[("b", 1)]]


def test_a_forked_child_keeps_nothing():
    from gpu_kernels.client.keeper import KEEPER

    KEEPER.keep(PoolThatRenews(), Needed("mine"))
    try:
        child = os.fork()
        if child == 0:
            os._exit(0 if KEEPER.keeps() == [] and not KEEPER.threads() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert KEEPER.keeps() == ["mine"]
    finally:
        stop(KEEPER)


def test_one_controller_that_hangs_holds_up_no_other_clients_renewals(keeper):
    asked, let_go = threading.Event(), threading.Event()

    class PoolThatHangs(PoolThatRenews):
        def renew(self, leases):
            asked.set()
            let_go.wait(60)
            return super().renew(leases)

    here = PoolThatRenews()
    keeper.keep(PoolThatHangs(), Needed("a", ttl=1.0))
    assert asked.wait(60)
    keeper.keep(here, Needed("b", ttl=1.0))
    assert here.called.acquire(timeout=60)
    let_go.set()


def test_who_cannot_be_told_of_a_loss_ends_nobody_elses_renewals(keeper):
    pool = PoolThatRenews(gone={"a": Lost("a", "revoked", "maintenance")})
    broken, b = Needed("a"), Needed("b")
    broken.on_lost = lambda holder: 1 / 0
    keeper.keep(pool, broken)
    keeper.keep(pool, b)
    keeper.round()
    keeper.round()
    assert pool.calls[1] == [("b", 1)]


def test_who_comes_to_hold_a_lease_while_its_end_is_told_hears_of_it_in_the_next_round(keeper):
    second = Needed("a")

    class PoolThatIsJoined(PoolThatRenews):
        def renew(self, leases):
            if not self.calls:
                keeper.keep(self, second)
            return super().renew(leases)

    keeper.keep(pool := PoolThatIsJoined(gone={"a": Lost("a", "revoked", "maintenance")}), Needed("a"))
    keeper.round()
    assert keeper.holders() == [second]
    keeper.round()
    assert second.losses == [("revoked", "maintenance")]
    assert len(pool.calls) == 2


def test_who_cannot_be_asked_whether_it_is_wanted_is_renewed_as_the_others_are(keeper):
    pool = PoolThatRenews()
    broken, b = Needed("a"), Needed("b")
    broken.wanted = lambda: 1 / 0
    keeper.keep(pool, broken)
    keeper.keep(pool, b)
    keeper.round()
    assert pool.calls == [[("a", 1), ("b", 1)]]
