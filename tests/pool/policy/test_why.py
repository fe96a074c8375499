"""What a student is told of a wait or a refusal, and what an admin is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from gpu_kernels.errors import CourseLimit, GPUKernelsError, NoSuchClass, PoolFull, SliceTooLarge
from gpu_kernels.pool.policy import why
from gpu_kernels.pool.policy.agenda_model import FOREVER, Span
from gpu_kernels.pool.policy.forecast import forecast
from gpu_kernels.pool.policy.model import Ask, RuleBinds, Server
from gpu_kernels.pool.policy.queue import decide
from gpu_kernels.pool.policy.quota import Limits
from gpu_kernels.units import Slice
from tests.pool.policy.scenes import DAY, HOUR, LIFE, MINUTE, START, Pool, gpus
from tests.pool.policy.test_queue_definition import scenes

pytestmark = pytest.mark.quick


def refused(pool: Pool, ask: Ask) -> GPUKernelsError:
    verdict = decide(list(pool.waiting.values()), pool.scene(), frozenset({ask.id})).verdicts[ask.id]
    assert verdict.placement is None
    return why.refusal(ask, verdict, pool.scene())


def told(pool: Pool, ask: Ask) -> str:
    decision = decide(list(pool.waiting.values()), pool.scene(), frozenset({ask.id}))
    line = [pool.waiting[other] for other in decision.waiting]
    return why.told(
        ask,
        decision.verdicts[ask.id],
        pool.scene(),
        position=decision.waiting.index(ask.id) + 1,
        starts_at=forecast(line, pool.scene(), decision.promises).get(ask.id),
        waiting=len(decision.waiting),
    )


def taken(pool: Pool, size: str, course: str = "cv202", user: str = "zoe", **fields: Any) -> Ask:
    ask = pool.ask(size, course, user, **fields)
    assert ask.id in pool.decide().granted
    return ask


class TestRefusals:
    def test_the_pool_is_full(self) -> None:
        pool = Pool.of(gpus(2))
        taken(pool, "0.75 V100")
        taken(pool, "0.5 V100", user="yan")
        error = refused(pool, pool.ask("0.75 V100"))
        assert isinstance(error, PoolFull)
        assert error.message == (
            "The pool is full: 1.25 of 2 V100 is in use.\n"
            "The largest slice free on one GPU is 0.5 V100 with 16000 MiB; 0.75 V100 does not fit.\n"
            "Try again in a minute, choose a smaller size, or choose 'Python 3' to work without a GPU."
        )

    def test_whole_gpus_are_not_free_together(self) -> None:
        pool = Pool.of(gpus(2, 2))
        for _ in range(2):
            taken(pool, "1 V100", user="yan")
            pool.servers = {"server1": Server("server1", standing="cordoned")}
        pool.servers = {}
        error = refused(pool, pool.ask("2 V100"))
        assert "2 V100 needs 2 V100 on one server, each unused; 1 at most are unused." in error.message

    def test_what_is_free_is_promised(self) -> None:
        pool = Pool.of(gpus())
        taken(pool, "0.5 V100", life=HOUR)
        pool.ask("1 V100", user="yan", asked_at=START - HOUR)
        pool.decide()
        error = refused(pool, pool.ask("0.1 V100"))
        assert "What is free is promised to others who asked earlier." in error.message

    def test_what_is_free_is_kept_for_a_class_hour(self) -> None:
        pool = Pool.of(gpus())
        pool.agenda.put_window(Span("w", "cv202", START + HOUR, START + 2 * HOUR, START + HOUR, (1, "w")))
        pool.agenda.put_seat("w", 1, 1, Slice(32_000, 1000))
        error = refused(pool, pool.ask("0.1 V100"))
        assert "kept for a class hour that begins before your lease could end" in error.message

    def test_no_server_answers(self) -> None:
        pool = Pool.of(gpus())
        pool.index.put(pool.index.gpus()[0].__class__(1, "server1", 0, "V100", 32_000, answering=False))
        error = refused(pool, pool.ask("0.1 V100"))
        assert error.message.startswith(
            "No GPU server with V100 answers at the moment (1 server out of reach)."
        )

    def test_a_server_will_be_gone(self) -> None:
        pool = Pool.of(gpus())
        pool.servers = {"server1": Server("server1", ends_at=START + LIFE - 1)}
        error = refused(pool, pool.ask("0.1 V100"))
        assert "1 server will be gone before your lease could end." in error.message

    def test_the_courses_limit(self) -> None:
        pool = Pool.of(gpus(), {"ml101": 500})
        taken(pool, "0.4 V100", "ml101")
        error = refused(pool, pool.ask("0.2 V100"))
        assert isinstance(error, CourseLimit)
        assert error.message == (
            "ml101 holds 0.4 of 0.5 V100 now; 0.2 V100 more would be over its limit.\n"
            "A slice comes back when someone in the course shuts down a GPU kernel.\n"
            "Try again in a minute, shut down a GPU kernel of yours, "
            "or choose 'Python 3' to work without a GPU."
        )
        assert error.details == {
            "course": "ml101",
            "account": "ml101",
            "gpu_class": "V100",
            "held": 400,
            "ending": 0,
            "limit": 500,
            "asked": 200,
        }

    def test_what_the_course_is_just_giving_back(self) -> None:
        pool = Pool.of(gpus(), {"ml101": 100})
        taken(pool, "0.1 V100", "ml101")
        ask = pool.ask("0.02 V100", user="bob")
        scene = replace(pool.scene(), ending=lambda course, gpu_class: 20)
        verdict = decide([ask], scene, frozenset({ask.id})).verdicts[ask.id]
        assert verdict.may_wait
        error = why.refusal(ask, verdict, scene)
        assert error.retry_after == 2.0
        assert error.message == (
            "ml101 holds 0.1 of 0.1 V100 now; 0.02 V100 more would be over its limit.\n"
            "0.02 V100 of it is just being given back.\n"
            "Try again in a few seconds, shut down a GPU kernel of yours, "
            "or choose 'Python 3' to work without a GPU."
        )

    def test_a_course_at_its_limit_does_not_wait(self) -> None:
        pool = Pool.of(gpus(), {"ml101": 100})
        taken(pool, "0.1 V100", "ml101")
        ask = pool.ask("0.02 V100", user="bob")
        verdict = decide([ask], pool.scene(), frozenset({ask.id})).verdicts[ask.id]
        assert not verdict.may_wait

    @settings(max_examples=60)
    @given(scenes())
    def test_every_request_gets_a_place_or_a_readable_refusal(self, pool: Pool) -> None:
        asks = list(pool.waiting.values())
        decision = decide(asks, pool.scene(), frozenset(pool.waiting))
        for ask in asks:
            verdict = decision.verdicts[ask.id]
            if verdict.placement is None:
                lines = why.refusal(ask, verdict, pool.scene()).message.splitlines()
                assert 2 <= len(lines) <= 3
                assert all(len(line) <= 130 for line in lines)

    def test_a_course_without_an_account_has_no_share_and_stops_nobody(self) -> None:
        pool = Pool.of(gpus())
        ask = pool.ask("0.1 V100", course="lost", asked_at=START - HOUR)
        other = pool.ask("0.1 V100", user="bob")
        assert refused(pool, ask).message.startswith("lost has no share of V100.")
        decision = decide(list(pool.waiting.values()), pool.scene(), frozenset({ask.id}))
        assert set(decision.granted) == {other.id}
        assert why.in_full(ask, decision, pool.scene(), dict(pool.waiting))["quota"] == {}
        assert forecast([ask], pool.scene()) == {}

    def test_no_server_has_joined(self) -> None:
        pool = Pool.of([])
        error = refused(pool, pool.ask("0.1 V100"))
        assert "no GPU server has joined" in error.message

    def test_more_than_the_course_may_ever_hold(self) -> None:
        pool = Pool.of(gpus(), {"ml101": 500})
        error = refused(pool, pool.ask("0.6 V100"))
        assert error.message.startswith("0.6 V100 is more than ml101 may hold at once: 0.5 V100.")
        assert error.retry_after is None

    def test_no_share_of_the_class(self) -> None:
        pool = Pool.of([*gpus(), *gpus(gpu_class="T4", first=2)], {"ml101": 0})
        pool.tree.put_quota("ml101", "V100", Limits(hard_limit=500))
        error = refused(pool, pool.ask("1 T4"))
        assert error.message.splitlines()[:2] == [
            "ml101 has no share of T4.",
            "It may hold 0.5 V100 at once.",
        ]

    def test_a_facultys_limit_says_whose_it_is(self) -> None:
        pool = Pool.of(gpus(2), [])
        pool.tree.put_account("arts", "faculty", "university")
        pool.shares.put_account("arts", "university")
        for name in ("film", "music"):
            pool.add_course(name, parent="arts")
        pool.tree.put_quota("arts", "V100", Limits(hard_limit=1000))
        taken(pool, "0.8 V100", "film")
        error = refused(pool, pool.ask("0.5 V100", "music"))
        assert error.message.splitlines()[:2] == [
            "arts holds 0.8 of 1 V100 now, all its courses together; 0.5 V100 more would be over its limit.",
            "A slice comes back when someone in a course of arts shuts down a GPU kernel.",
        ]

    def test_what_is_guaranteed_to_other_courses(self) -> None:
        pool = Pool.of(gpus(), {"ml101": None, "cv202": None})
        pool.tree.put_quota("cv202", "V100", Limits(nominal=800, lending_limit=0))
        error = refused(pool, pool.ask("0.5 V100"))
        assert error.message.startswith(
            "0 of the pool's V100 is in use, and the rest is guaranteed to other courses."
        )

    def test_a_rule_says_until_when(self) -> None:
        pool = Pool.of(
            gpus(),
            rules=lambda ask, given: RuleBinds("hours_per_week", "course", "ml101", 5, 5, until=START + DAY),
        )
        error = refused(pool, pool.ask())
        assert error.message.startswith("The GPU budget of ml101 is used up: 5 of 5 GPU-hours this week.")

    def test_what_the_pool_never_has(self) -> None:
        pool = Pool.of(gpus())
        assert isinstance(refused(pool, pool.ask("1 T4")), NoSuchClass)
        assert isinstance(refused(pool, pool.ask("2 V100")), SliceTooLarge)

    def test_any_class_is_refused_for_the_one_that_lacks_least(self) -> None:
        pool = Pool.of([*gpus(), *gpus(gpu_class="T4", first=2)], {"ml101": 100})
        pool.tree.put_quota("ml101", "T4", Limits(hard_limit=300))
        error = refused(pool, pool.ask("0.4 GPU"))
        assert error.message.startswith("0.4 GPU is more than ml101 may hold at once: 0.3 T4.")


class TestToldToAStudent:
    def test_a_wait_says_what_is_short_until_when_and_what_helps(self) -> None:
        pool = Pool.of(gpus())
        taken(pool, "0.75 V100", life=90 * MINUTE)
        pool.ask("0.5 V100", user="yan")
        ask = pool.ask("0.5 V100")
        assert told(pool, ask) == (
            "You are number 2 of 2 in the line for 0.5 V100: 0.75 of 1 V100 is in use. "
            "The largest slice free on one GPU is 0.25 V100 with 8000 MiB; 0.5 V100 does not fit. "
            "It is your turn in about 90 minutes by the present forecast; earlier when others shut down "
            "their GPU kernels, or if you choose a smaller size."
        )

    def test_a_promise_is_told_as_one(self) -> None:
        pool = Pool.of(gpus())
        taken(pool, "0.75 V100", life=90 * MINUTE)
        ask = pool.ask("1 V100", asked_at=START - HOUR)
        assert "You get it in about 90 minutes at the latest: that is promised to you." in told(pool, ask)

    def test_nobody_knows_is_said_only_where_nobody_does(self) -> None:
        pool = Pool.of(gpus())
        taken(pool, "1 V100", life=FOREVER)
        assert "Nobody can say yet when it is your turn" in told(pool, pool.ask())

    def test_a_limit_of_the_course_is_told_with_what_it_holds(self) -> None:
        pool = Pool.of(gpus(), {"ml101": 100})
        taken(pool, "0.1 V100", "ml101", life=HOUR)
        assert told(pool, pool.ask()).startswith(
            "You are next in the line for 0.1 V100: ml101 holds 0.1 of the 0.1 V100 that it may hold at once."
        )

    @pytest.mark.parametrize(
        ("milliseconds", "text"),
        [
            (-5, "within a minute"),
            (59_999, "within a minute"),
            (60_000, "in about 1 minute"),
            (119 * MINUTE, "in about 119 minutes"),
            (2 * HOUR, "in about 2 hours"),
            (47 * HOUR, "in about 47 hours"),
            (50 * HOUR, "in about 3 days"),
        ],
    )
    def test_times_are_round(self, milliseconds: int, text: str) -> None:
        assert why.in_about(milliseconds) == text

    def test_no_other_users_name_is_told(self) -> None:
        pool = Pool.of(gpus())
        taken(pool, "0.75 V100", user="secret-user", life=HOUR)
        pool.ask("1 V100", user="another-secret", asked_at=START - HOUR)
        pool.decide()
        ask = pool.ask("0.5 V100")
        assert "secret" not in told(pool, ask)
        assert "secret" not in json.dumps(refused(pool, ask).to_json())


class TestToldToAnAdmin:
    def test_everything_that_was_compared_is_there(self) -> None:
        pool = Pool.of(gpus(2), {"ml101": 1000, "cv202": None})
        taken(pool, "0.75 V100", life=HOUR)
        pool.index.put(pool.index.gpus()[1].__class__(2, "server2", 0, "V100", 32_000, answering=False))
        large = pool.ask("1 V100", "cv202", "yan", asked_at=START - HOUR)
        pool.decide()
        ask = pool.ask("0.5 V100")
        asks = dict(pool.waiting)
        decision = decide(list(asks.values()), pool.scene(), frozenset({ask.id}))
        full = why.in_full(ask, decision, pool.scene(), asks)
        full = json.loads(json.dumps(full))
        assert full["held_by"] == "gpus"
        assert [other["id"] for other in full["ahead"]] == [large.id]
        assert [level["this"] for level in full["shares"]] == ["university", "ml101", "ada"]
        assert [entry["account"] for entry in full["shares"][1]["shares"]] == ["ml101", "cv202"]
        assert [level["account"] for level in full["quota"]["V100"]] == ["university", "ml101"]
        assert {entry["agent"]: entry["why_not"] for entry in full["gpus"]} == {
            "server1": "too full",
            "server2": "silent",
        }
        assert {fact["fact"] for fact in full["facts"]} == {"TooFull", "ServerOut"}


class TestServersOutOfService:
    def test_a_closed_server_is_not_counted_as_room(self) -> None:
        pool = Pool.of(gpus(2))
        taken(pool, "1 V100", life=HOUR)
        pool.servers = {"server2": Server("server2", standing="draining")}
        assert refused(pool, pool.ask("0.1 V100")).message.splitlines()[:2] == [
            "No server that takes new slices has room for it: 1 of 2 V100 is in use.",
            "No GPU that is open has anything left. 1 server takes nothing new.",
        ]

    def test_who_waits_for_silent_servers_is_not_told_to_choose_a_smaller_size(self) -> None:
        pool = Pool.of(gpus())
        pool.servers = {"server1": Server("server1", answering=False)}
        text = told(pool, pool.ask("0.1 V100"))
        assert "out of reach" in text
        assert text.endswith(
            "Nobody can say yet when it is your turn. Ask the pool's administrator, "
            "or choose 'Python 3' to work without a GPU."
        )
