"""Predicted starts: the queue replayed over the known ends."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_kernels.pool.policy.agenda_model import FOREVER, Span
from gpu_kernels.pool.policy.forecast import forecast
from gpu_kernels.pool.policy.model import Ask, RuleBinds, Server
from gpu_kernels.pool.policy.queue import Decision, decide
from gpu_kernels.units import Slice
from tests.pool.policy.scenes import HOUR, LIFE, MINUTE, START, Pool, gpus

pytestmark = pytest.mark.quick


def predicted(pool: Pool, **bounds: int) -> dict[str, int]:
    decision: Decision = pool.decide()
    line = [pool.waiting[ask] for ask in decision.waiting]
    return forecast(line, pool.scene(), decision.promises, **bounds)


def full(pool: Pool, size: str, lives: list[int]) -> None:
    for number, life in enumerate(lives):
        pool.ask(size, "cv202", f"early{number}", life=life)
    assert len(pool.decide().granted) == len(lives)


def test_each_end_lets_the_next_in_the_line_start() -> None:
    pool = Pool.of(gpus())
    full(pool, "0.5 V100", [HOUR, 2 * HOUR])
    first, second = pool.ask("0.5 V100", user="ada"), pool.ask("0.5 V100", user="bob")
    assert predicted(pool) == {first.id: START + HOUR, second.id: START + 2 * HOUR}


def test_what_starts_ends_in_its_turn() -> None:
    pool = Pool.of(gpus())
    full(pool, "1 V100", [HOUR])
    asks = [pool.ask("1 V100", user=user) for user in "abc"]
    starts = predicted(pool)
    assert [starts[ask.id] for ask in asks] == [START + HOUR, START + HOUR + LIFE, START + HOUR + 2 * LIFE]


def test_whole_gpus_start_when_enough_of_one_server_are_free() -> None:
    pool = Pool.of(gpus(2, 2))
    full(pool, "1 V100", [HOUR, 3 * HOUR, 2 * HOUR, 2 * HOUR])
    ask = pool.ask("2 V100")
    assert predicted(pool)[ask.id] == START + 2 * HOUR


def test_a_course_at_its_limit_starts_when_its_own_leases_end() -> None:
    pool = Pool.of(gpus(2), {"ml101": 500, "cv202": None})
    pool.ask("0.5 V100", life=3 * HOUR)
    pool.decide()
    full(pool, "0.5 V100", [HOUR])
    ask = pool.ask("0.5 V100", user="bob")
    assert predicted(pool)[ask.id] == START + 3 * HOUR


def test_a_promise_is_predicted_for_its_instant_and_kept_from_the_others() -> None:
    pool = Pool.of(gpus())
    full(pool, "0.5 V100", [HOUR, 2 * HOUR])
    large = pool.ask("1 V100", asked_at=START - HOUR)
    small = pool.ask("0.5 V100", user="bob")
    assert predicted(pool) == {large.id: START + 2 * HOUR, small.id: START + 2 * HOUR + LIFE}


def test_a_budget_that_begins_anew_is_waited_for() -> None:
    def spent(ask: Ask, given: int) -> RuleBinds | None:
        return RuleBinds("hours_per_week", "course", ask.course, 5, 5, until=START + 9 * HOUR)

    pool = Pool.of(gpus(), rules=spent)
    ask = pool.ask()
    assert predicted(pool) == {ask.id: START + 9 * HOUR}


def test_leases_at_once_come_free_as_the_users_own_end() -> None:
    pool = Pool.of(gpus())
    full(pool, "0.1 V100", [HOUR])
    pool.rules = lambda ask, given: (
        RuleBinds("max_leases", "user", ask.course, 1, 1) if 1 + given >= 1 else None
    )
    ask = pool.ask(course="cv202", user="early0")
    assert predicted(pool) == {ask.id: START + HOUR}


def test_the_end_of_a_class_hour_is_an_instant_too() -> None:
    pool = Pool.of(gpus())
    pool.agenda.put_window(Span("w1", "cv202", START, START + HOUR, START, (1, "w1")))
    pool.agenda.put_seat("w1", 1, 1, Slice(32_000, 1000))
    ask = pool.ask("0.1 V100")
    assert predicted(pool) == {ask.id: START + HOUR}


def test_what_would_meet_the_next_class_hour_waits_for_its_end() -> None:
    pool = Pool.of(gpus())
    full(pool, "1 V100", [HOUR])
    starts = START + 2 * HOUR
    pool.agenda.put_window(Span("w1", "cv202", starts, starts + HOUR, starts, (1, "w1")))
    pool.agenda.put_seat("w1", 1, 1, Slice(16_000, 500))
    small, large = pool.ask("0.5 V100", user="ada"), pool.ask("1 V100", user="bob", life=HOUR)
    brief = pool.ask("1 V100", course="cv202", user="cyd", life=HOUR)
    assert predicted(pool) == {
        small.id: START + HOUR,
        large.id: START + HOUR + LIFE,
        brief.id: START + 2 * HOUR + LIFE,
    }


def test_what_has_no_known_end_has_no_prediction() -> None:
    pool = Pool.of(gpus())
    full(pool, "1 V100", [FOREVER])
    pool.ask("1 V100")
    assert predicted(pool) == {}


def test_a_server_that_goes_away_is_not_counted_on() -> None:
    pool = Pool.of(gpus(2))
    full(pool, "1 V100", [HOUR, 2 * HOUR])
    pool.servers = {"server1": Server("server1", ends_at=START + 3 * HOUR)}
    ask = pool.ask("1 V100")
    assert predicted(pool)[ask.id] == START + 2 * HOUR


def test_the_work_is_bounded_and_who_is_beyond_it_has_no_prediction() -> None:
    pool = Pool.of(gpus())
    full(pool, "1 V100", [HOUR])
    first, second = pool.ask("1 V100", user="ada"), pool.ask("1 V100", user="bob")
    assert predicted(pool, most=1) == {first.id: START + HOUR}
    assert second.id in pool.waiting


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_nothing_is_changed_and_it_comes_true_where_nobody_ends_early_and_nobody_comes(seed: int) -> None:
    """Slices of one size and one life: whoever is next by then, the instants are the predicted ones."""
    rng = random.Random(seed)
    pool = Pool.of(gpus(2))
    for number in range(rng.randrange(30)):
        course, user = rng.choice(["ml101", "cv202"]), f"user{number}"
        pool.ask("0.25 V100", course, user, life=rng.randrange(MINUTE, LIFE) if number < 8 else LIFE)
        pool.decide()
    pool.now += MINUTE // 2
    before = pool.index.gpus()
    starts = predicted(pool)
    assert pool.index.gpus() == before
    assert starts.keys() == pool.waiting.keys()
    count = len(pool.waiting)
    happened: dict[str, int] = {}
    while pool.waiting:
        pool.pass_time(min(until for _, _, until in pool.leases.values()))
        for name in starts.keys() - pool.waiting.keys() - happened.keys():
            happened[name] = pool.now
    assert sorted(happened.values()) == sorted(starts.values())
    assert len(happened) == count


@pytest.mark.parametrize("waiting", [200])
def test_a_long_queue_is_predicted_as_a_whole(waiting: int) -> None:
    pool = Pool.of(gpus(2, 4))
    full(pool, "0.5 V100", [HOUR + number * MINUTE for number in range(16)])
    for number in range(waiting):
        pool.ask("0.5 V100", user=f"user{number}")
    assert len(predicted(pool)) == waiting


def test_promises_of_the_decision_are_those_of_the_forecast() -> None:
    pool = Pool.of(gpus())
    full(pool, "1 V100", [HOUR])
    ask = pool.ask("1 V100", asked_at=START - HOUR)
    decision = decide(list(pool.waiting.values()), pool.scene())
    starts = forecast([ask], pool.scene(), decision.promises)
    assert starts == {ask.id: decision.promises[ask.id].at}
