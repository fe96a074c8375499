"""One of the controllers of a store leads: how the term changes hands, and what the others may not do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gpu_kernels.pool.ledger.state.rows import Change
from gpu_kernels.pool.ledger.stores import Deposed
from gpu_kernels.pool.ledger.stores.sql import SqlStore
from gpu_kernels.pool.ledger.stores.term import OtherKey
from tests.pool.stores.examples import event, write

TTL = 60_000
Open = Callable[..., SqlStore]


@pytest.fixture
def controller(migrated_url: str) -> Iterator[Open]:
    """Makes stores of one ledger, each a controller's."""
    made: list[SqlStore] = []

    def open_store(**options: str) -> SqlStore:
        made.append(SqlStore(migrated_url, term_ttl=TTL, **options))  # type: ignore[arg-type]
        made[-1].open()
        return made[-1]

    yield open_store
    for store in made:
        store.close()


def pass_time(store: SqlStore, milliseconds: int) -> None:
    """The last renewal was so much longer ago."""
    connection = store._database.connect()
    query = "UPDATE leadership SET renewed_at = renewed_at - %s"
    connection.execute(query % milliseconds)
    connection.close()


def renewed_at(store: SqlStore) -> int:
    leader, _ = store.leader()
    assert leader is not None
    return leader.renewed_at


def test_nobody_leads_a_new_ledger(controller: Open) -> None:
    store = controller()
    assert store.leader()[0] is None
    with pytest.raises(Deposed):
        store.begin()


def test_the_first_one_leads_and_the_second_is_told_where_it_is(controller: Open) -> None:
    first, second = controller(), controller()
    assert first.lead("one", "http://one").term == 1
    with pytest.raises(Deposed, match="the active one is at http://one") as standby:
        second.lead("two", "http://two")
    assert standby.value.details == {"address": "http://one"}
    assert standby.value.code == "not_active"
    with pytest.raises(Deposed):
        second.begin()
    write(first, event(1))


def test_the_term_is_taken_when_it_is_over_and_no_sooner(controller: Open) -> None:
    first, second = controller(), controller()
    old = first.lead("one", "http://one")
    pass_time(first, TTL - 5_000)
    with pytest.raises(Deposed):
        second.lead("two", "http://two")
    pass_time(first, 5_001)
    new = second.lead("two", "http://two")
    assert (old.term, new.term) == (1, 2)
    assert old.incarnation != new.incarnation
    with pytest.raises(Deposed, match="http://two"):
        first.begin()
    with pytest.raises(Deposed):
        first.begin(writes=False)
    write(second, event(1))


def test_a_transaction_under_way_ends_before_the_term_changes_hands(controller: Open) -> None:
    first, second = controller(), controller()
    first.lead("one", "")
    now = first.begin()
    first.write([Change(None, event(1))])
    pass_time_within(first, now - TTL - 1)
    first.commit()
    second.lead("two", "")
    assert [row.id for row in second.events_after(0)] == [1]
    with pytest.raises(Deposed):
        write(first, event(2))
    assert [row.id for row in second.events_after(0)] == [1]


def pass_time_within(store: SqlStore, at: int) -> None:
    store._connected().execute(f"UPDATE leadership SET renewed_at = {at}")


def test_writing_renews_the_term_and_so_does_a_transaction_that_writes_nothing(controller: Open) -> None:
    store = controller()
    store.lead("one", "")
    for work in (lambda: write(store, event(1)), lambda: (store.begin(), store.commit())):
        pass_time(store, TTL // 2)
        before = renewed_at(store)
        work()
        assert renewed_at(store) >= before + TTL // 2
    pass_time(store, TTL // 2)
    before = renewed_at(store)
    store.begin(writes=False)
    store.commit()
    assert renewed_at(store) == before


def test_one_that_could_not_renew_in_time_leads_on_if_nobody_else_did(controller: Open) -> None:
    store = controller()
    store.lead("one", "")
    pass_time(store, 100 * TTL)
    write(store, event(1))
    with pytest.raises(Deposed):
        controller().lead("two", "")


def test_a_term_that_is_given_up_is_over_at_once(controller: Open) -> None:
    first, second = controller(), controller()
    first.lead("one", "")
    first.close()
    assert second.lead("two", "").term == 2


def test_one_that_was_deposed_gives_nothing_up_that_is_anothers(controller: Open) -> None:
    first, second = controller(), controller()
    first.lead("one", "")
    pass_time(first, TTL + 1)
    second.lead("two", "")
    first.close()
    write(second, event(1))
    with pytest.raises(Deposed):
        controller().lead("three", "")


def test_the_leader_itself_may_take_a_new_term(controller: Open) -> None:
    store = controller()
    assert store.lead("one", "").term == 1
    assert store.lead("one", "").term == 2
    write(store, event(1))


def test_whoever_knows_that_the_leader_is_dead_need_not_wait(controller: Open) -> None:
    dead, alive = controller(), controller()
    dead.lead("one", "")
    assert alive.lead("one", "", alone=True).term == 2
    with pytest.raises(Deposed):
        dead.begin()


def test_a_clock_that_was_set_back_keeps_nobody_waiting(controller: Open) -> None:
    first, second = controller(), controller()
    first.lead("one", "")
    pass_time(first, -100 * TTL)
    assert second.lead("two", "").term == 2


class TestKeys:
    """Controllers of one ledger must make the same secrets."""

    def test_another_key_may_not_take_over(self, controller: Open) -> None:
        first, second = controller(key_print="a"), controller(key_print="b")
        first.lead("one", "")
        for _ in ("while it leads", "and afterwards"):
            with pytest.raises(OtherKey, match=r"Copy lease-secret\.key from there"):
                second.lead("two", "")
            first.close()
        assert controller(key_print="a").lead("three", "").term == 2

    def test_one_that_says_so_may_and_so_may_one_on_the_same_state_folder(self, controller: Open) -> None:
        first = controller(key_print="a")
        first.lead("one", "")
        assert controller(key_print="b").lead("two", "", alone=True).term == 2
        pass_time(first, TTL + 1)
        assert controller(key_print="").lead("three", "").term == 3
        pass_time(first, TTL + 1)
        assert controller(key_print="c").lead("four", "").term == 4
