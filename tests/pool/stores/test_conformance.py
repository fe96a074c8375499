"""What every store does, wherever it keeps its rows."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from gpu_kernels.errors import InvalidRequest
from gpu_kernels.pool.ledger.state.rows import TABLES, Change, Event, Row
from gpu_kernels.pool.ledger.stores import EndedLease, Store
from tests.pool.stores.examples import (
    AGENT,
    CLASS_HOUR,
    COURSE,
    GPU,
    ONE_OF_EACH,
    POOL,
    T,
    apply,
    change,
    drop,
    ended,
    event,
    everything,
    granted,
    lease,
    part,
    write,
)


def told(rows: Any) -> set[str]:
    return {repr(row) for row in rows}


class TestRows:
    def test_every_table_comes_back_as_it_was_written(self, store: Store) -> None:
        write(store, *ONE_OF_EACH)
        assert everything(store) == told(row for row in ONE_OF_EACH if not isinstance(row, Event))
        assert list(store.events_after(0)) == [row for row in ONE_OF_EACH if isinstance(row, Event)]

    def test_rows_of_a_batch_may_stand_in_any_order_of_tables(self, store: Store) -> None:
        write(store, *reversed(ONE_OF_EACH))
        drop(store, *(row for row in ONE_OF_EACH if not isinstance(row, Event)))
        assert everything(store) == set()

    def test_a_change_writes_what_differs(self, store: Store) -> None:
        write(store, *ONE_OF_EACH)
        after = change(store, GPU, used_mib=3276, used_thousandths=100, offered=False)
        hour = change(store, CLASS_HOUR, except_dates=(), cancelled_at=T)
        course = change(store, COURSE, rules={}, weight=2.0, parent=None)
        assert told([after, hour, course]) <= everything(store)

    def test_a_change_of_nothing_is_none(self, store: Store) -> None:
        write(store, AGENT)
        change(store, AGENT)
        assert everything(store) == told([AGENT])

    def test_text_of_any_script_is_kept(self, store: Store) -> None:
        odd = granted(reason="Ω ☃ 🂡 ' \" \\ %s ? :x $1", labels={"a'b": '"\\'}, path="ü" * 300)
        write(store, *POOL, odd)
        assert told([odd]) <= everything(store)

    def test_the_longest_names_that_the_api_takes_are_kept(self, store: Store) -> None:
        """Index entries have a limit on PostgreSQL; random text cannot be compressed to fit."""
        random = Random(1)

        def name(length: int) -> str:
            return "".join(chr(random.randrange(0x1F300, 0x1FAFF)) for _ in range(length))

        user, server, path, key = name(255), name(255), name(1024), name(512)
        long = granted("long", user=user, server=server, path=path, key=key, live_key=key)
        write(store, *POOL, long, part("long", user=user))
        changed = change(store, long, live_key=None)
        assert told([changed]) <= everything(store)

    def test_numbers_of_any_size_are_kept(self, store: Store) -> None:
        for size in (0, 2**15, 2**31, 2**62):
            write(store, lease(f"l{size}", turn=size, launches=size))
        assert everything(store) == told(
            lease(f"l{size}", turn=size, launches=size) for size in (0, 2**15, 2**31, 2**62)
        )

    def test_a_slots_lease_makes_room_for_the_next_one_in_one_batch(self, store: Store) -> None:
        write(store, *POOL)
        first = granted("a", path="x")
        write(store, first)
        replaced, second = granted("a", path="x", place="replaced", live_key=None), granted("b", path="x")
        apply(store, [Change(first, replaced), Change(None, second)])
        assert told([replaced, second]) <= everything(store)


class TestTransactions:
    def test_a_rollback_leaves_nothing(self, store: Store) -> None:
        store.begin()
        store.write([Change(None, AGENT)])
        store.rollback()
        assert everything(store) == set()
        write(store, AGENT)

    def test_a_rollback_of_nothing_is_harmless(self, store: Store) -> None:
        store.rollback()
        store.begin()
        store.rollback()
        store.rollback()
        write(store, AGENT)

    def test_what_is_not_committed_is_in_no_history(self, store: Store) -> None:
        store.begin()
        store.write([Change(None, event(1))])
        assert list(store.events_after(0)) == []
        store.commit()
        assert list(store.events_after(0)) == [event(1)]

    def test_a_transaction_has_one_time_and_the_next_is_not_before_it(self, store: Store) -> None:
        times = [write(store, event(number)) for number in range(1, 5)]
        assert times == sorted(times)
        assert all(time > 1_600_000_000_000 for time in times)

    def test_the_term_can_be_renewed_where_nothing_is_written(self, store: Store) -> None:
        store.begin()
        store.renew_term()
        store.commit()
        assert everything(store) == set()


class TestLoad:
    def test_leases_that_ended_long_ago_stay_out_with_their_slices(self, store: Store) -> None:
        living = [lease("q"), granted("g"), part("g")]
        recent = [ended("r", at=T + 50), part("r", ended_at=T + 50)]
        old = [ended("o", at=T + 49), part("o", ended_at=T + 49)]
        write(store, *POOL, *living, *recent, *old)
        assert everything(store, T + 50) == told([*POOL, *living, *recent])

    def test_the_last_event_is_told(self, store: Store) -> None:
        store.begin()
        assert store.load(0).last_event == 0
        store.rollback()
        write(store, event(7), event(41))
        store.begin()
        assert store.load(0).last_event == 41
        store.rollback()


class TestHistory:
    def test_a_lease_is_found_ended_or_not(self, store: Store) -> None:
        old = [ended("o"), part("o", ended_at=T + 5)]
        write(store, *POOL, granted("g"), part("g"), *old)
        assert store.find_lease("g") == EndedLease(granted("g"), (part("g"),))
        assert store.find_lease("o") == EndedLease(ended("o"), (part("o", ended_at=T + 5),))
        assert store.find_lease("x") is None

    def test_ended_leases_come_page_by_page_newest_first(self, store: Store) -> None:
        leases = [ended(f"l{n}", created_at=T + n // 2) for n in range(7)]
        write(store, *POOL, *leases, granted("living"))
        pages, cursor = [], None
        while True:
            page = store.ended_leases(cursor=cursor, limit=3)
            pages.append([row.lease.id for row in page.rows])
            cursor = page.cursor
            if cursor is None:
                break
        assert pages == [["l6", "l5", "l4"], ["l3", "l2", "l1"], ["l0"]]

    def test_nothing_is_told_twice_when_something_is_added_between_two_pages(self, store: Store) -> None:
        write(store, *POOL, *(ended(f"l{n}", created_at=T + n) for n in range(4)))
        first = store.ended_leases(limit=2)
        write(store, ended("new", created_at=T + 9))
        second = store.ended_leases(limit=2, cursor=first.cursor)
        assert [row.lease.id for row in (*first.rows, *second.rows)] == ["l3", "l2", "l1", "l0"]
        assert second.cursor is None

    def test_ended_leases_of_a_user_or_a_course(self, store: Store) -> None:
        write(
            store,
            *POOL,
            ended("a"),
            ended("b", user="bob"),
            ended("c", user="bob", course="cv202"),
        )

        def ids(**wanted: str) -> list[str]:
            return [row.lease.id for row in store.ended_leases(**wanted).rows]

        assert ids(user="bob") == ["c", "b"]
        assert ids(course="ml101") == ["b", "a"]
        assert ids(user="bob", course="cv202") == ["c"]
        assert ids(user="x' OR '1'='1") == []

    def test_usage_is_what_was_open_in_a_time(self, store: Store) -> None:
        slices = [
            part("before", started_at=T, ended_at=T + 10),
            part("into", started_at=T + 5, ended_at=T + 11),
            part("within", started_at=T + 12, ended_at=T + 13),
            part("open", started_at=T + 14),
            part("after", started_at=T + 20),
        ]
        write(store, *POOL, *slices)
        page = store.usage(since=T + 10, until=T + 20)
        assert [row.lease_id for row in page.rows] == ["open", "within", "into"]
        first = store.usage(since=0, until=T + 99, limit=2)
        rest = store.usage(since=0, until=T + 99, limit=9, cursor=first.cursor)
        assert [*first.rows, *rest.rows] == slices[::-1]
        assert store.usage(since=0, until=T + 99, user="bob").rows == ()
        assert len(store.usage(since=0, until=T + 99, user="ada", course="ml101").rows) == 5

    def test_the_audit_trail_by_subject_and_kind(self, store: Store) -> None:
        write(
            store, event(1), event(2, kind="active"), event(3, subject="l2"), event(4, detail={"reason": "x"})
        )
        assert [row.id for row in store.events(limit=3).rows] == [4, 3, 2]
        assert [row.id for row in store.events(subject="l1").rows] == [4, 2, 1]
        assert [row.id for row in store.events(subject="l1", kind="active").rows] == [2]
        page = store.events(limit=2)
        assert [row.id for row in store.events(limit=2, cursor=page.cursor).rows] == [2, 1]
        assert [row.id for row in store.events_after(1, limit=2)] == [2, 3]

    def test_open_slices_are_summed(self, store: Store) -> None:
        assert store.held() == {}
        write(
            store, *POOL, part("a"), part("b", mib=24, thousandths=1), part("c", mib=7, ended_at=T), part("d")
        )
        assert store.held() == {1: (3276 * 2 + 24, 201)}

    @pytest.mark.parametrize("cursor", ["", "x", "W10", "WzFd", "WyIxIl0", "ﬀ", "W" * 3000, "WzFlOTk5XQ"])
    def test_a_cursor_that_no_page_gave_is_refused(self, store: Store, cursor: str) -> None:
        with pytest.raises(InvalidRequest):
            store.ended_leases(cursor=cursor)


class TestPrune:
    def prune(self, store: Store, before: int, most: int = 100, batch: int = 100) -> bool:
        store.begin()
        more = store.prune(before, most, batch)
        store.commit()
        return more

    def test_old_leases_and_events_go_and_accounts_stay(self, store: Store) -> None:
        kept: list[Row] = [granted("g"), part("g"), ended("new", at=T + 100)]
        accounts = [part("o", ended_at=T), part("p", ended_at=T)]
        write(store, *POOL, *kept, *accounts, ended("o", at=T), ended("p", at=T))
        write(store, event(1), event(2, at=T + 99))
        assert not self.prune(store, T + 1)
        assert everything(store) == told([*POOL, *kept])
        assert [row.id for row in store.events().rows] == [2]
        assert len(store.usage(since=T - 1, until=T + 99).rows) == 3

    def test_it_goes_batch_by_batch(self, store: Store) -> None:
        write(store, *POOL, *(ended(f"l{n}", at=T + n) for n in range(5)))
        assert self.prune(store, T + 9, batch=3)
        assert {row.lease.id for row in store.ended_leases().rows} == {"l3", "l4"}
        assert not self.prune(store, T + 9, batch=3)

    def test_the_audit_trail_is_no_longer_than_it_may_be(self, store: Store) -> None:
        write(store, *(event(n, at=T + n) for n in range(1, 8)))
        assert not self.prune(store, T, most=3)
        assert [row.id for row in store.events().rows] == [7, 6, 5]

    def test_no_event_number_is_given_twice(self, store: Store) -> None:
        """However much is forgotten, the highest number is still known."""
        write(store, event(1), event(2), event(3))
        self.prune(store, T + 1)
        store.begin()
        assert store.load(0).last_event == 3
        store.rollback()


def test_one_row_of_each_table_is_in_these_tests() -> None:
    assert {type(row) for row in ONE_OF_EACH} == set(TABLES)


def test_a_run_of_changes_is_as_good_as_one(store: Store) -> None:
    """Some stores write many rows of one kind in another way than a few."""
    count = 60
    leases = [granted(f"l{n}", user=f"u'{n}") for n in range(count)]
    write(store, *POOL, *leases)
    after = [
        replace(row, labels={"n": f'"{n}, {{}}'}, reason=None if n % 2 else f"{{NULL}} {n}", expires_at=n)
        for n, row in enumerate(leases)
    ]
    apply(store, [Change(*pair) for pair in zip(leases, after, strict=True)])
    assert everything(store) == told([*POOL, *after])
    moved = [replace(row, place="replaced", live_key=None) for row in after]
    following = [granted(f"m{n}", user=row.user, path=row.path) for n, row in enumerate(after)]
    apply(
        store,
        [*(Change(*pair) for pair in zip(after, moved, strict=True)), *(Change(None, r) for r in following)],
    )
    assert everything(store) == told([*POOL, *moved, *following])
    drop(store, *following)
    assert everything(store) == told([*POOL, *moved])
