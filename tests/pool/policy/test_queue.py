"""One pass over those who wait: overtaking, promises, class hours, and that waiting is bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_kernels.pool.policy.agenda import Agenda
from gpu_kernels.pool.policy.agenda_model import Span
from gpu_kernels.pool.policy.model import Ask, RuleBinds, Server
from gpu_kernels.pool.policy.queue import decide
from gpu_kernels.pool.policy.quota import Limits
from gpu_kernels.pool.policy.scene import Patience, Settings
from gpu_kernels.units import Slice
from tests.pool.policy.scenes import HOUR, LIFE, MINUTE, START, Pool, gpus

pytestmark = pytest.mark.quick


class TestOneByOne:
    def test_an_empty_pool_gives_what_is_asked_for(self) -> None:
        pool = Pool.of(gpus())
        ask = pool.ask("0.5 V100")
        placement = pool.decide().granted[ask.id]
        assert (placement.agent, placement.thousandths, placement.preempt_at) == ("server1", 500, None)

    def test_each_sees_what_those_before_it_were_given(self) -> None:
        pool = Pool.of(gpus())
        for user in "abc":
            pool.ask("0.4 V100", user=user)
        decision = pool.decide()
        assert list(decision.granted) == ["r1", "r2"]
        assert decision.waiting == ("r3",)
        assert decision.verdicts["r3"].held_by == "gpus"

    def test_what_no_gpu_could_hold_is_said_to_be_impossible(self) -> None:
        pool = Pool.of(gpus())
        asks = [pool.ask(size) for size in ("1 T4", "2 V100", "40000 MiB")]
        verdicts = pool.decide().verdicts
        assert {verdicts[ask.id].held_by for ask in asks} == {"size"}
        assert not any(verdicts[ask.id].may_wait for ask in asks)

    def test_a_course_at_its_limit_keeps_nobody_else_waiting(self) -> None:
        pool = Pool.of(gpus(), {"ml101": 100, "cv202": None})
        pool.ask("0.1 V100", user="ada")
        pool.ask("0.1 V100", user="bob", asked_at=START - HOUR)
        pool.ask("1 V100", user="cyd", asked_at=START - HOUR)
        other = pool.ask("0.1 V100", course="cv202", user="dan")
        decision = pool.decide()
        assert other.id in decision.granted
        assert not decision.promises

    def test_a_lease_that_replaces_another_counts_only_what_it_is_larger(self) -> None:
        pool = Pool.of(gpus(), {"ml101": 500})
        pool.ask("0.5 V100")
        pool.decide()
        refused = pool.ask("0.5 V100", user="bob")
        swapped = pool.ask("0.5 V100", replaces={"V100": 500})
        decision = pool.decide()
        assert swapped.id in decision.granted
        assert decision.verdicts[refused.id].held_by == "quota"

    def test_a_rule_keeps_its_own_user_alone_waiting(self) -> None:
        def two_at_once(ask: Ask, given: int) -> RuleBinds | None:
            return RuleBinds("leases", "user", ask.course, given, 2) if given >= 2 else None

        pool = Pool.of(gpus(), rules=two_at_once)
        own = [pool.ask(user="ada") for _ in range(3)]
        other = pool.ask(user="bob")
        decision = pool.decide()
        assert other.id in decision.granted
        assert decision.verdicts[own[2].id].held_by == "rule"

    def test_nothing_goes_to_a_server_that_is_closed_or_ends_before(self) -> None:
        pool = Pool.of(gpus(3))
        pool.servers = {
            "server1": Server("server1", standing="cordoned"),
            "server2": Server("server2", ends_at=START + LIFE - 1),
            "server3": Server("server3", ends_at=START + LIFE),
        }
        ask = pool.ask("1 V100")
        assert pool.decide().granted[ask.id].agent == "server3"
        late = pool.ask("1 V100")
        short = pool.ask("1 V100", life=LIFE - 1)
        decision = pool.decide()
        assert decision.granted[short.id].agent == "server2"
        assert decision.verdicts[late.id].held_by == "gpus"


def fill(pool: Pool, size: str, lives: list[int], course: str = "cv202") -> None:
    for number, life in enumerate(lives):
        pool.ask(size, course=course, user=f"early{number}", life=life)
    assert len(pool.decide().granted) == len(lives)


class TestPromises:
    def test_small_requests_overtake_a_large_one_until_it_has_waited_long_enough(self) -> None:
        pool = Pool.of(gpus())
        fill(pool, "0.5 V100", [HOUR])
        large = pool.ask("1 V100")
        small = pool.ask("0.1 V100", user="bob")
        assert list(pool.decide().granted) == [small.id]
        pool.pass_time(START + pool.patience.promise)
        assert pool.decide().promises[large.id].at == START + LIFE
        later = pool.ask("0.1 V100", user="cyd")
        assert later.id not in pool.decide().granted

    def test_what_ends_before_the_promise_may_still_overtake(self) -> None:
        pool = Pool.of(gpus())
        fill(pool, "0.5 V100", [HOUR])
        large = pool.ask("1 V100", asked_at=START - MINUTE)
        assert pool.decide().promises[large.id].at == START + HOUR
        pool.now += MINUTE
        brief = pool.ask("0.1 V100", user="bob", life=HOUR - MINUTE)
        longer = pool.ask("0.1 V100", user="cyd", life=HOUR - MINUTE + 1)
        assert list(pool.decide().granted) == [brief.id]
        pool.pass_time(START + HOUR)
        assert large.id in pool.leases
        assert longer.id in pool.waiting

    def test_only_as_much_is_kept_as_the_ends_until_then_do_not_bring(self) -> None:
        pool = Pool.of(gpus())
        fill(pool, "0.2 V100", [HOUR, 3 * HOUR])
        large = pool.ask("0.7 V100", asked_at=START - MINUTE)
        assert pool.decide().promises[large.id].at == START + HOUR
        beside = pool.ask("0.1 V100", user="bob")
        too_much = pool.ask("0.1 V100", user="cyd")
        assert list(pool.decide().granted) == [beside.id]
        pool.pass_time(START + HOUR)
        assert large.id in pool.leases
        assert too_much.id in pool.waiting
        pool.check()

    def test_gpus_of_one_server_are_promised_together(self) -> None:
        pool = Pool.of(gpus(2, 3))
        fill(pool, "1 V100", [HOUR, 2 * HOUR, 3 * HOUR, HOUR, HOUR, 4 * HOUR])
        large = pool.ask("2 V100", asked_at=START - MINUTE)
        promise = pool.decide().promises[large.id]
        servers = {pool.index.gpu(gpu_id).agent for gpu_id in promise.gpus}  # type: ignore[union-attr]
        assert len(promise.gpus) == 2
        assert len(servers) == 1
        assert promise.at == START + HOUR

    def test_there_is_one_promise_for_each_class_and_it_stays_with_its_holder(self) -> None:
        pool = Pool.of([*gpus(), *gpus(gpu_class="T4", first=2)])
        fill(pool, "1 V100", [HOUR])
        fill(pool, "1 T4", [2 * HOUR])
        first = pool.ask("1 V100", asked_at=START - MINUTE)
        second = pool.ask("1 V100", course="cv202", asked_at=START - MINUTE)
        of_other_class = pool.ask("1 T4", asked_at=START - MINUTE)
        before = pool.decide().promises
        assert set(before) == {first.id, of_other_class.id}
        pool.now += MINUTE
        for use in pool.shares.settle("ml101", "ada", "V100", pool.now, granted=50_000):
            pool.shares.put(use)
        assert pool.decide().promises == before
        assert second.id in pool.waiting

    def test_any_class_will_do_takes_the_promise_of_the_class_that_comes_first(self) -> None:
        pool = Pool.of([*gpus(), *gpus(gpu_class="T4", first=2)])
        fill(pool, "1 V100", [2 * HOUR])
        fill(pool, "1 T4", [HOUR])
        ask = pool.ask("1 GPU", asked_at=START - MINUTE)
        behind = pool.ask("1 V100", course="cv202", user="bob", asked_at=START - MINUTE)
        decision = pool.decide()
        assert decision.promises[ask.id].gpu_class == "T4"
        assert behind.id not in decision.promises

    def test_the_instant_moves_earlier_when_a_lease_ends_early(self) -> None:
        pool = Pool.of(gpus(2))
        fill(pool, "1 V100", [3 * HOUR, 2 * HOUR])
        large = pool.ask("1 V100", asked_at=START - MINUTE)
        assert pool.decide().promises[large.id].at == START + 2 * HOUR
        pool.end("r1")
        assert large.id in pool.decide().granted

    def test_the_quota_that_a_promise_needs_is_kept_too(self) -> None:
        pool = Pool.of(gpus(2), {"ml101": 1000, "cv202": None})
        fill(pool, "1 V100", [HOUR, HOUR])
        large = pool.ask("1 V100", asked_at=START - MINUTE)
        assert large.id in pool.decide().promises
        pool.end("r1")
        pool.servers = {"server1": Server("server1", standing="cordoned")}
        classmate, brief = pool.ask("0.1 V100", user="bob"), pool.ask("0.1 V100", user="cyd", life=HOUR)
        pool.servers["server1"] = Server("server1", ends_at=START + 2 * HOUR)
        decision = pool.decide()
        assert decision.verdicts[classmate.id].held_by == "gpus"
        assert set(decision.granted) == {brief.id}
        assert large.id in decision.promises

    def test_no_promise_is_made_of_what_has_no_known_end(self) -> None:
        pool = Pool.of(gpus())
        fill(pool, "1 V100", [1 << 62])
        pool.ask("1 V100", asked_at=START - MINUTE)
        assert not pool.decide().promises

    def test_a_promise_counts_on_a_server_only_as_long_as_it_is_there(self) -> None:
        pool = Pool.of(gpus(2))
        fill(pool, "1 V100", [HOUR, 2 * HOUR])
        pool.servers = {"server1": Server("server1", ends_at=START + HOUR + LIFE - 1)}
        ask = pool.ask("1 V100", asked_at=START - MINUTE)
        assert pool.decide().promises[ask.id].agent == "server2"

    def test_who_has_waited_very_long_goes_before_lower_shares(self) -> None:
        pool = Pool.of(gpus(), patience=Patience(longest=2 * HOUR))
        fill(pool, "1 V100", [HOUR])
        for use in pool.shares.settle("ml101", "ada", "V100", pool.now, granted=10**6):
            pool.shares.put(use)
        old = pool.ask("1 V100", asked_at=START - 2 * HOUR)
        new = pool.ask("1 V100", course="cv202", user="bob", asked_at=START - MINUTE)
        decision = pool.decide()
        assert decision.waiting == (new.id, old.id)
        assert set(decision.promises) == {old.id}

    def test_a_limit_of_others_is_waited_for_with_a_promise(self) -> None:
        """A faculty at its ceiling: what its other course gives back is not taken by small requests."""
        pool = Pool.of(gpus(2), ["cv202"])
        pool.tree.put_account("arts", "faculty", "university")
        pool.shares.put_account("arts", "university")
        pool.add_course("film", parent="arts")
        pool.add_course("music", parent="arts")
        pool.tree.put_quota("arts", "V100", Limits(hard_limit=1000))
        fill(pool, "0.5 V100", [HOUR, 2 * HOUR], course="film")
        large = pool.ask("1 V100", course="music", asked_at=START - MINUTE)
        decision = pool.decide()
        assert decision.verdicts[large.id].held_by == "quota"
        assert decision.promises[large.id].at == START + 2 * HOUR
        pool.now = START + HOUR
        pool.end("r1")
        small = pool.ask("0.5 V100", course="film", user="bob")
        elsewhere = pool.ask("0.5 V100", course="cv202", user="dan", life=HOUR)
        decision = pool.decide()
        assert decision.verdicts[small.id].held_by == "gpus"
        assert elsewhere.id in decision.granted
        pool.pass_time(START + 2 * HOUR)
        assert large.id in pool.leases


def window(agenda: Agenda, seats: dict[int, Slice], starts: int, ends: int, lead: int = 10 * MINUTE) -> None:
    agenda.put_window(Span("w1", "cv202", starts, ends, starts - lead, (1, "w1")))
    for number, (gpu_id, part) in enumerate(seats.items()):
        agenda.put_seat("w1", number, gpu_id, part)


class TestClassHours:
    def pool(self) -> Pool:
        pool = Pool.of(gpus())
        window(pool.agenda, {1: Slice(16_000, 500)}, START + HOUR, START + 2 * HOUR)
        return pool

    def test_what_ends_before_the_class_hour_may_have_all(self) -> None:
        pool = self.pool()
        ask = pool.ask("1 V100", life=HOUR - 10 * MINUTE)
        assert pool.decide().granted[ask.id].preempt_at is None

    def test_what_lasts_longer_has_what_no_seat_needs(self) -> None:
        pool = self.pool()
        fits, too_large = pool.ask("0.5 V100"), pool.ask("0.6 V100", user="bob")
        decision = pool.decide()
        assert decision.granted[fits.id].preempt_at is None
        assert decision.verdicts[too_large.id].held_by == "gpus"

    def test_who_agrees_is_told_when_to_make_way(self) -> None:
        pool = self.pool()
        ask = pool.ask("1 V100", preemptible=True)
        assert pool.decide().granted[ask.id].preempt_at == START + HOUR

    def test_a_class_of_gpus_may_be_preemptible_for_all(self) -> None:
        pool = self.pool()
        ask = pool.ask("1 V100")
        decision = decide([ask], replace(pool.scene(), settings=Settings(preemptible=frozenset({"V100"}))))
        assert decision.granted[ask.id].preempt_at == START + HOUR

    def test_a_promise_is_of_an_instant_at_which_no_seat_is_in_the_way(self) -> None:
        pool = self.pool()
        fill(pool, "0.5 V100", [HOUR])
        ask = pool.ask("1 V100", asked_at=START - MINUTE)
        assert pool.decide().promises[ask.id].at == START + 2 * HOUR

    def test_what_is_beside_seats_and_promises_leaves_both(self) -> None:
        pool = self.pool()
        fill(pool, "0.4 V100", [HOUR // 2])
        promised = pool.ask("0.45 V100", asked_at=START - MINUTE, life=10 * HOUR)
        pool.servers = {}
        decision = pool.decide()
        assert promised.id in decision.granted
        more = pool.ask("0.1 V100", user="bob")
        assert pool.decide().verdicts[more.id].held_by == "gpus"


class TestClaims:
    def test_a_promise_that_cannot_be_named_now_stays_its_holders_claim(self) -> None:
        pool = Pool.of(gpus())
        fill(pool, "1 V100", [HOUR])
        ask = pool.ask("1 V100", asked_at=START - MINUTE, promised_at=START)
        pool.servers = {"server1": Server("server1", answering=False)}
        decision = decide([ask], pool.scene())
        assert (decision.promises, decision.claims) == ({}, {ask.id})

    def test_a_course_at_its_own_limit_has_no_claim(self) -> None:
        pool = Pool.of(gpus(), {"ml101": 500, "cv202": None})
        fill(pool, "0.5 V100", [HOUR], course="ml101")
        ask = pool.ask("0.5 V100", asked_at=START - MINUTE, promised_at=START)
        assert not decide([ask], pool.scene()).claims

    def test_a_lease_of_a_course_that_is_gone_stops_nothing(self) -> None:
        pool = Pool.of(gpus(), ["ml101", "cv202"])
        fill(pool, "1 V100", [HOUR])
        ask = pool.ask("1 V100", asked_at=START - MINUTE)
        gone = [replace(held, course="dropped") for held in pool.held()]
        assert not decide([ask], replace(pool.scene(), held=lambda: gone)).promises


class TestSwaps:
    @pytest.mark.parametrize("until", [2 * HOUR, HOUR])
    @pytest.mark.parametrize(("size", "granted"), [("0.5 V100", True), ("0.6 V100", False)])
    def test_a_swap_leaves_its_course_the_quota_that_a_classmate_is_promised(
        self, until: int, size: str, granted: bool
    ) -> None:
        """Whether or not the lease that it replaces would have been over by then."""
        pool = Pool.of(gpus(3), {"ml101": 1000, "cv202": None})
        pool.ask("0.5 V100", life=until)
        pool.decide()
        fill(pool, "0.5 V100", [HOUR])
        fill(pool, "1 V100", [HOUR, HOUR])
        large = pool.ask("0.5 V100", user="bob", asked_at=START - MINUTE)
        assert pool.decide().promises[large.id].at == START + HOUR
        pool.index.put(gpus(4)[3])  # a server joins that only the swap may use
        pool.tree.set_capacity("V100", 4000)
        pool.waiting[large.id] = replace(pool.waiting[large.id], life=10 * LIFE)
        pool.servers = {"server4": Server("server4", ends_at=START + 2 * LIFE)}
        swap = pool.ask(size, replaces={"V100": 500}, replaced_until=START + until)
        assert (swap.id in pool.decide().granted) == granted


def test_a_promise_outlasts_classmates_who_are_over_by_then() -> None:
    """They may have the course's room now: what counts is that it is there when the promise is kept."""
    pool = Pool.of(gpus(2), {"ml101": 1000, "cv202": None})
    fill(pool, "1 V100", [HOUR])
    fill(pool, "0.5 V100", [HOUR])
    large = pool.ask("1 V100", asked_at=START - MINUTE)
    before = pool.decide().promises[large.id]
    brief = pool.ask("0.5 V100", user="bob", life=HOUR)
    assert brief.id in pool.decide().granted
    assert pool.decide().promises[large.id] == before
