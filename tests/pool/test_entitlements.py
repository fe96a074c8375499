"""The quota tree, the rules and the spending that follow from the rows of the book in any order."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from gpu_kernels.pool.ledger.state.book import Book
from gpu_kernels.pool.ledger.state.indexes.entitlements import Entitlements
from gpu_kernels.pool.ledger.state.rows import Account, Gpu, Lease, Quota, Row, Slice
from gpu_kernels.units import parse_size
from gpu_kernels.vocabulary.rules import GPU_HOUR, HOUR

pytestmark = pytest.mark.quick

V100 = "V100"
INSTITUTION = {"max_leases": 5, "course_limit": {V100: 40}}
SIZE = parse_size("0.1 V100")
ACCOUNTS: list[Row] = [
    Account(
        name="uni", kind="institution", created_at=0, rules={"max_leases": 5, "course_limit": {V100: 40}}
    ),
    Account(name="science", kind="faculty", parent="uni", created_at=0, rules={"max_leases": 3}),
    Account(name="ml", kind="course", parent="science", created_at=0, rules={"hours_per_week": 10}),
    Account(name="film", kind="course", created_at=0),
    Quota(account="ml", gpu_class=V100, nominal=100, hard_limit=500),
]


def gpu(number: int, *, offered: bool = True) -> Gpu:
    return Gpu(
        id=number, agent_name="a", uuid=f"GPU-{number}", index=number, gpu_class=V100, device="software",
        name="x", total_mib=32768, offered=offered, offered_class=V100, offered_mib=32000,
        allocatable_mib=32000,
    )  # fmt: skip


def lease(name: str, course: str, thousandths: int, *, path: str | None = None) -> Lease:
    return Lease(
        id=name, state="active", user="ada", course=course, size=SIZE, key=name, live_key=name, body_hash="",
        server="", path=path or name, place="current", holder="", turn=0, created_at=0, asked_at=0,
        give_up_at=0, gpu_class=V100, thousandths=thousandths,
    )  # fmt: skip


def part(name: str, thousandths: int, *, active_at: int | None, ended_at: int | None = None) -> Slice:
    return Slice(
        lease_id=name, gpu_id=1, gpu_uuid="GPU-1", gpu_class=V100, user="ada", course="ml", mib=1,
        thousandths=thousandths, started_at=0, active_at=active_at, ended_at=ended_at,
    )  # fmt: skip


def book_of(*rows: Row) -> tuple[Book, Entitlements]:
    book = Book()
    for row in rows:
        book.put(row)
    return book, book.entitlements


def test_accounts_make_a_tree_in_whatever_order_they_come() -> None:
    for seed in range(8):
        rows = [*ACCOUNTS, gpu(1)]
        random.Random(seed).shuffle(rows)
        _, made = book_of(*rows)
        assert made.tree.path("ml") == ("uni", "science", "ml")
        assert made.tree.path("film") == ("uni", "film")
        assert (made.tree.room("ml", V100), made.tree.room("film", V100)) == (500, 40)


def test_courses_without_an_institution_belong_to_one_all_the_same() -> None:
    _, made = book_of(
        Account(name="ml101", kind="course", created_at=0),
        Quota(account="ml101", gpu_class=V100, hard_limit=100),
        gpu(1),
    )
    assert made.tree.path("ml101") == ("institution", "ml101")
    assert made.tree.room("ml101", V100) == 100


def test_rows_that_make_no_tree_stop_nothing_else() -> None:
    _, made = book_of(
        *ACCOUNTS,
        Account(name="a", kind="faculty", parent="b", created_at=0),
        Account(name="b", kind="faculty", parent="a", created_at=0, rules={"no_such_rule": 1}),
        Account(name="x", kind="course", parent="ml", created_at=0),
        Quota(account="nobody", gpu_class=V100, hard_limit=1),
        Quota(account="film", gpu_class=V100, nominal=1, hard_limit=0),
        gpu(1),
    )
    assert made.tree.path("a")[0] == "uni"
    assert made.tree.path("x") == ("uni", "x")
    assert made.tree.room("ml", V100) == 500
    assert made.rules("b").max_leases == 5


def test_capacity_and_use_are_kept_up_and_undone() -> None:
    book, made = book_of(*ACCOUNTS, gpu(1))
    book.settle()
    book.put(lease("l1", "ml", 300))
    assert made.tree.room("ml", V100) == 200
    mark = book.mark()
    book.put(replace(lease("l1", "ml", 300), state="draining", place=None, live_key=None, agent_name="a"))
    book.put(replace(lease("l2", "ml", 200)))
    book.put(gpu(1, offered=False))
    assert made.tree.room("ml", V100) == -500
    assert made.tree.use("uni", V100) == 500
    book.undo_to(mark)
    assert made.tree.room("ml", V100) == 200
    book.put(Account(name="more", kind="course", parent="science", created_at=1))
    assert made.tree.use("science", V100) == 300, "the tree is made anew with what is held"
    book.undo_to(0)
    assert made.tree.room("ml", V100) == 500


def test_a_slot_counts_once_also_in_the_tree() -> None:
    book, made = book_of(*ACCOUNTS, gpu(1))
    old = lease("l1", "ml", 300, path="a.ipynb")
    book.put(old)
    book.put(replace(old, place="replaced", live_key=None))
    book.put(lease("l2", "ml", 200, path="a.ipynb"))
    assert made.tree.use("ml", V100) == 300


def test_rules_come_down_the_tree_and_follow_changes() -> None:
    book, made = book_of(*ACCOUNTS)
    assert made.rules("ml").max_leases == 3
    assert made.rules("film").max_leases == 5
    assert made.rules("nobody").max_leases is None
    book.put(replace(ACCOUNTS[1], rules={}))
    assert made.rules("ml").max_leases == 5


def test_what_ran_is_spent_and_stays_spent_when_the_book_forgets_it() -> None:
    book, made = book_of(*ACCOUNTS)
    now = 10 * HOUR

    def spent() -> float:
        (budget,) = made.budgets.spent("ml", "ada", made.rules("ml"), now)
        return budget.amount / GPU_HOUR

    book.put(part("l1", 500, active_at=None))
    assert spent() == 0, "what never ran costs nothing"
    book.put(part("l1", 500, active_at=4 * HOUR))
    assert spent() == 3
    mark = book.mark()
    book.put(part("l1", 500, active_at=4 * HOUR, ended_at=8 * HOUR))
    assert spent() == 2
    book.undo_to(mark)
    assert spent() == 3
    book.put(part("l1", 500, active_at=4 * HOUR, ended_at=8 * HOUR))
    book._set(Slice, ("l1", 1), part("l1", 500, active_at=4 * HOUR, ended_at=8 * HOUR), None)
    assert spent() == 2
    made.remember([part("l0", 1000, active_at=HOUR, ended_at=2 * HOUR)])
    assert spent() == 3
