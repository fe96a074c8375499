"""Rules: what an account may say, what is in force below it, and what a student reads."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gpu_kernels.errors import BudgetSpent, CoursePaused, InvalidRequest, SizeLimit, TooMany
from gpu_kernels.pool.policy.budget import Budgets
from gpu_kernels.pool.policy.model import RuleBinds
from gpu_kernels.pool.policy.rule_check import check
from gpu_kernels.pool.policy.rule_refusals import refusal
from gpu_kernels.units import parse_size
from gpu_kernels.vocabulary.rules import (
    GPU_HOUR,
    HOUR,
    RULES,
    Rolling,
    Rules,
    looser,
    read_rules,
    resolve,
    still_tighter,
)

pytestmark = pytest.mark.quick

BERLIN = ZoneInfo("Europe/Berlin")
SATURDAY = int(datetime.fromisoformat("2026-11-21T15:00+01:00").timestamp() * 1000)
SIZE = parse_size("0.5 V100")


def test_a_rule_comes_from_the_nearest_account_that_names_it() -> None:
    rules = resolve(
        [
            {"max_leases": 5, "idle": 1800, "longest_life": 43200, "hours_per_week": 40},
            {"max_leases": 3, "idle": None},
            {"hours_rolling": {"hours": 2.5, "window": 24}},
        ]
    )
    assert rules == Rules(
        max_leases=3,
        longest_life=43_200_000,
        hours_per_week=40 * GPU_HOUR,
        hours_rolling=Rolling(5 * GPU_HOUR // 2, 24),
    )


BAD: list[tuple[Any, str]] = [
    ([], "'rules' must be an object"),
    ({"max_lease": 1}, "There is no rule 'max_lease'. The rules are: max_leases, "),
    ({"max_leases": "2"}, "'max_leases' must be a whole number from 0 to 10000, or null; not '2'"),
    ({"max_leases": True}, "must be a whole number"),
    ({"max_leases": -1}, "must be a whole number"),
    ({"max_size": {"GPU": 5}}, "thousandths of a GPU by GPU class"),
    ({"max_size": 500}, "thousandths of a GPU by GPU class"),
    ({"hours_per_week": float("nan")}, "number of GPU-hours"),
    ({"hours_rolling": {"hours": 1, "window": 0}}, "hours from 1 to 336"),
    ({"hours_rolling": {"hours": 1}}, '{"hours": '),
    ({"longest_life": 0}, "seconds from 1 to"),
    ({"idle": 1.5}, "seconds from 1 to"),
    ({"sizes": "0.02 V100"}, "a list of up to 20 sizes"),
    ({"sizes": ["much"]}, "a list of up to 20 sizes"),
    ({"sizes": ["0.02 V100"] * 21}, "a list of up to 20 sizes"),
    ({"paused": ""}, "a text of 1 to 300"),
    ({"paused": "a\nb"}, "a text of 1 to 300"),
    ({"paused": True}, "a text of 1 to 300"),
    ({"overrides": {"ada": {"idle": 60}}}, "'overrides' must be an object"),
    ({"overrides": {"ada": {"max_leases": -1}}}, "'overrides' must be an object"),
    ({"overrides": {"ada": {"until": "2026-11-21"}}}, "'overrides' must be an object"),
    ({"overrides": {"ada": {"until": 7}}}, "'overrides' must be an object"),
    ({"overrides": {"": {}}}, "'overrides' must be an object"),
    ({"overrides": {f"u{n}": {"max_leases": 1} for n in range(1001)}}, "for up to 1000 users"),
    ({"overrides": {f"u{n}": {"sizes": ["0.1 V100"] * 20} for n in range(101)}}, "2000 sizes and classes"),
    ({"overrides": {f"u{n}": {"max_size": {f"C{c}": 1 for c in range(64)}} for n in range(32)}}, "in all"),
]


@pytest.mark.parametrize(("raw", "why"), BAD)
def test_what_is_no_rule_is_refused_by_name(raw: object, why: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_rules(raw)
    assert why in caught.value.message


def test_every_rule_has_its_field() -> None:
    assert set(RULES) == set(Rules.__slots__)


@pytest.mark.parametrize(
    ("own", "above", "found"),
    [
        ({"max_leases": 3}, {"max_leases": 3}, []),
        ({"max_leases": 4}, {"max_leases": 3}, ["max_leases"]),
        ({"max_leases": None}, {"max_leases": 3}, ["max_leases"]),
        ({"max_leases": 4}, {}, []),
        ({"max_size": {"V100": 100}}, {"max_size": {"": 200}}, ["max_size"]),
        ({"max_size": {"V100": 100, "": 200}}, {"max_size": {"": 200}}, []),
        ({"max_size": {"": 100}}, {"max_size": {"V100": 50, "": 200}}, ["max_size"]),
        ({"hours_rolling": {"hours": 1, "window": 48}}, {"hours_rolling": {"hours": 1, "window": 24}}, []),
        (
            {"hours_rolling": {"hours": 1, "window": 12}},
            {"hours_rolling": {"hours": 1, "window": 24}},
            ["hours_rolling"],
        ),
        ({"course_limit": {"V100": 5}}, {}, ["course_limit"]),
        ({"sizes": ["0.02 V100"]}, {"sizes": ["0.02 V100", "0.1 V100"]}, []),
        ({"sizes": ["1/50 V100"]}, {"sizes": ["0.02 GPU"]}, []),
        ({"sizes": ["0.02 GPU"]}, {"sizes": ["0.02 V100"]}, ["sizes"]),
        ({"sizes": None}, {"sizes": []}, ["sizes"]),
        ({"paused": "exam"}, {"paused": "no"}, []),
        ({"paused": None}, {"paused": "no"}, ["paused"]),
        ({"overrides": {"ada": {"max_leases": 3}}}, {"max_leases": 3}, []),
        ({"overrides": {"ada": {"max_leases": 4}}}, {"max_leases": 3}, ["overrides"]),
        ({"overrides": {"ada": {"max_leases": None}}}, {"max_leases": 3}, ["overrides"]),
        ({"overrides": {"ada": {"max_leases": 9}}}, {}, []),
        ({"overrides": None}, {"overrides": {"ada": {"max_leases": 0}}}, ["overrides"]),
        ({"overrides": None}, {}, []),
        (
            {"overrides": {"ada": {"max_leases": 3}}},
            {"max_leases": 3, "overrides": {"ada": {"max_leases": 0}}},
            ["overrides"],
        ),
        (
            {"overrides": {"ada": {"user_hours_per_week": 1}}},
            {"max_leases": 3, "overrides": {"ada": {"max_leases": 0}}},
            ["overrides"],
        ),
        (
            {"overrides": {"ada": {"max_leases": 0, "until": "2026-11-22T00:00Z"}}},
            {"overrides": {"ada": {"max_leases": 0, "until": "2026-12-22T00:00Z"}}},
            ["overrides"],
        ),
        (
            {"overrides": {"ada": {"max_leases": 8}}},
            {"max_leases": 3, "overrides": {"ada": {"max_leases": 9}}},
            [],
        ),
        ({"overrides": {"eve": {"max_leases": 3}}}, {"overrides": {"ada": {"max_leases": 0}}}, []),
    ],
)
def test_what_is_looser_than_what_stands_above_is_named(
    own: dict[str, Any], above: dict[str, Any], found: list[str]
) -> None:
    assert looser(read_rules(own), resolve([above])) == found


@pytest.mark.parametrize(
    ("said", "above", "counts"),
    [
        ({"paused": None}, {"paused": "exam"}, {}),
        ({"max_leases": 4, "idle": 60}, {"max_leases": 2}, {"idle": 60}),
        ({"max_leases": None, "max_size": {"": 900}}, {"max_leases": 2, "max_size": {"": 100}}, {}),
        ({"max_leases": 1, "paused": "exam"}, {"max_leases": 2}, {"max_leases": 1, "paused": "exam"}),
        ({"overrides": None}, {"overrides": {"ada": {"max_leases": 0}}}, {}),
        (
            {"overrides": {"ada": {"max_leases": 4}, "eve": {"max_leases": 1}}},
            {"max_leases": 2},
            {"overrides": {"eve": {"max_leases": 1}}},
        ),
    ],
)
def test_what_instructors_said_counts_no_longer_where_it_has_become_looser_than_what_stands_above(
    said: dict[str, Any], above: dict[str, Any], counts: dict[str, Any]
) -> None:
    assert still_tighter(read_rules(said), resolve([above])) == read_rules(counts)


def test_nothing_stands_against_a_request_without_rules() -> None:
    assert check("ml101", SIZE, {"V100": 500}, Rules(), 9, ()) is None


def test_a_slice_that_is_too_large_is_refused_with_what_is_allowed() -> None:
    binds = check("ml101", SIZE, {"V100": 500}, Rules(max_size={"": 1000, "V100": 100}), 0, ())
    assert binds == RuleBinds("max_size", "user", "ml101", 500, 100, gpu_class="V100")
    error = refusal(binds, SIZE, SATURDAY, BERLIN)
    assert isinstance(error, SizeLimit)
    assert error.message.startswith("0.5 V100 is more than one lease of ml101 may have: 0.1 V100 at most.\n")
    assert error.retry_after is None
    assert check("ml101", SIZE, {"V100": 100}, Rules(max_size={"V100": 100}), 0, ()) is None


def test_a_size_for_any_class_must_be_allowed_in_each_that_it_might_use() -> None:
    rules = Rules(max_size={"": 1000, "A100": 100})
    binds = check("ml101", SIZE, {"V100": 500, "A100": 500}, rules, 0, ())
    assert binds is not None
    assert binds.gpu_class == "A100"


def test_one_lease_more_than_allowed_is_refused() -> None:
    assert check("ml101", SIZE, {"V100": 20}, Rules(max_leases=2), 1, ()) is None
    binds = check("ml101", SIZE, {"V100": 20}, Rules(max_leases=2), 2, ())
    assert binds is not None
    error = refusal(binds, SIZE, SATURDAY, BERLIN)
    assert isinstance(error, TooMany)
    assert (
        error.message.splitlines()[0]
        == "You have 2 GPU kernels in ml101; 2 at once is the limit for each user."
    )
    assert "when it does" in refusal(RuleBinds("max_leases", "user", "x", 0, 0), SIZE, 0, BERLIN).message


def test_a_spent_week_says_when_the_next_begins() -> None:
    budgets = Budgets(BERLIN)
    rules = resolve([{"hours_per_week": 40, "user_hours_per_week": 4}])
    budgets.add("ml101", "ada", 1000, SATURDAY - 4 * HOUR, SATURDAY)
    binds = check("ml101", SIZE, {"V100": 20}, rules, 0, budgets.spent("ml101", "ada", rules, SATURDAY))
    assert binds is not None
    error = refusal(binds, SIZE, SATURDAY, BERLIN)
    assert isinstance(error, BudgetSpent)
    assert error.message == (
        "Your GPU budget in ml101 is used up: 4 of 4 GPU-hours this week.\n"
        "It resets on Mon 23 Nov 2026, 00:00 (Europe/Berlin).\n"
        "Try again then, ask your instructor for a larger one, or choose 'Python 3' to work without a GPU."
    )
    assert error.details["until"] == "2026-11-22T23:00:00+00:00"
    assert error.retry_after == 33 * 3600
    assert (
        check("ml101", SIZE, {"V100": 20}, rules, 0, budgets.spent("ml101", "bob", rules, SATURDAY)) is None
    )
    monday = SATURDAY + 33 * HOUR
    assert check("ml101", SIZE, {"V100": 20}, rules, 0, budgets.spent("ml101", "ada", rules, monday)) is None


def test_the_budget_of_the_course_is_all_its_users_together() -> None:
    budgets = Budgets(BERLIN)
    rules = resolve([{"hours_per_week": 4}])
    for user in ("ada", "bob"):
        budgets.add("ml101", user, 500, SATURDAY - 4 * HOUR)
    binds = check("ml101", SIZE, {"V100": 20}, rules, 0, budgets.spent("ml101", "eve", rules, SATURDAY))
    assert binds is not None
    assert (binds.whose, binds.has, binds.most) == ("course", 4.0, 4.0)
    budgets.remove("ml101", "bob", 500, SATURDAY - 4 * HOUR)
    assert (
        check("ml101", SIZE, {"V100": 20}, rules, 0, budgets.spent("ml101", "eve", rules, SATURDAY)) is None
    )


def test_a_rolling_budget_comes_back_bit_by_bit() -> None:
    budgets = Budgets(BERLIN)
    rules = resolve([{"user_hours_rolling": {"hours": 2, "window": 24}}])
    budgets.add("ml101", "ada", 1000, SATURDAY - 10 * HOUR, SATURDAY - 7 * HOUR)
    binds = check("ml101", SIZE, {"V100": 20}, rules, 0, budgets.spent("ml101", "ada", rules, SATURDAY))
    assert binds is not None
    assert binds.until == SATURDAY + 15 * HOUR + 1, "an hour of the three has left the window, and a moment"
    text = refusal(binds, SIZE, SATURDAY, BERLIN).message
    assert (
        "3 of 2 GPU-hours in the last 24 hours.\nPart of it is available again from Sun 22 Nov 2026, 06:00"
        in text
    )


def test_what_no_window_reaches_is_forgotten() -> None:
    budgets = Budgets(BERLIN)
    budgets.add("ml101", "ada", 1000, SATURDAY, SATURDAY + HOUR)
    budgets.add("ml101", "bob", 1000, SATURDAY)
    budgets.forget(SATURDAY + 40 * 24 * HOUR)
    assert set(budgets._spending) == {("ml101", ""), ("ml101", "bob")}
    later = SATURDAY + 40 * 24 * HOUR
    rules = resolve([{"user_hours_rolling": {"hours": 2, "window": 24}}])
    (spent,) = budgets.spent("ml101", "bob", rules, later)
    assert spent.amount == 24 * GPU_HOUR


def test_a_budget_of_nothing_never_comes_back_by_itself() -> None:
    rules = resolve([{"hours_per_week": 0}])
    binds = check(
        "ml101", SIZE, {"V100": 20}, rules, 0, Budgets(BERLIN).spent("ml101", "ada", rules, SATURDAY)
    )
    assert binds is not None
    assert binds.until is None
    assert "Ask your instructor for one" in refusal(binds, SIZE, SATURDAY, BERLIN).message


def test_a_course_refuses_sizes_that_it_does_not_offer() -> None:
    rules = resolve([{"sizes": ["0.02 V100", "0.1 GPU"]}])
    for size, offered in (("0.02 V100", True), ("0.1 A100", True), ("0.02 A100", False), ("0.5 V100", False)):
        assert (check("ml101", parse_size(size), {}, rules, 0, ()) is None) == offered, size
    binds = check("ml101", SIZE, {}, rules, 0, ())
    assert binds is not None
    error = refusal(binds, SIZE, SATURDAY, BERLIN)
    assert isinstance(error, SizeLimit)
    assert error.message == (
        "0.5 V100 is not on offer in ml101, which has 0.02 V100, 0.1 GPU.\n"
        "Choose one of these, ask your instructor for 0.5 V100, or choose 'Python 3' to work without a GPU."
    )


def test_a_paused_course_says_why() -> None:
    binds = check("ml101", SIZE, {}, resolve([{"paused": "The exam is on until 12:00."}]), 0, ())
    assert binds is not None
    error = refusal(binds, SIZE, SATURDAY, BERLIN)
    assert isinstance(error, CoursePaused)
    assert error.message.startswith("ml101 gives out no GPUs at the moment: The exam is on until 12:00.\n")


def test_an_override_holds_for_its_user_until_its_time() -> None:
    until = datetime.fromtimestamp(SATURDAY / 1000, BERLIN).isoformat()
    rules = resolve(
        [
            {
                "max_leases": 1,
                "overrides": {"ada": {"max_leases": 3, "until": until}, "bob": {"max_leases": 2}},
            },
            {"overrides": {"bob": {"max_leases": 0}}},
        ]
    )
    assert rules.of("ada", SATURDAY - 1).max_leases == 3
    assert rules.of("ada", SATURDAY).max_leases == 1
    assert rules.of("bob", SATURDAY).max_leases == 0, "the last word counts"
    assert rules.of("eve", SATURDAY).max_leases == 1
