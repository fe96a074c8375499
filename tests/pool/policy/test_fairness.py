"""Who is next: decayed use, weights, and charging at the grant."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_kernels.pool.policy import fairness
from gpu_kernels.pool.policy.fairness import Policy, Shares, Use, left, settled
from gpu_kernels.pool.policy.model import Ask
from gpu_kernels.units import parse_size
from tests.pool.policy.scenes import HOUR, MINUTE, START, Pool, gpus

DAY = 24 * HOUR
SIZE = parse_size("0.1 V100")
COST = ("V100", 100 * 60)


def cost(ask: Ask) -> tuple[str, int]:
    return COST


class TestDecay:
    def test_a_half_life_leaves_half(self) -> None:
        assert left(DAY, DAY) == left(0, DAY) // 2
        assert left(10 * DAY, DAY) == left(0, DAY) // 1024
        assert left(100 * DAY, DAY) == 0
        assert settled(1000, 0, DAY, DAY) == 500

    def test_a_clock_set_back_gives_nothing_back(self) -> None:
        assert settled(1000, 500, -5 * DAY, DAY) == 1000

    @given(st.integers(0, 40 * DAY), st.integers(1000, 30 * DAY))
    def test_it_is_the_power_of_two_that_it_says(self, elapsed: int, half_life: int) -> None:
        assert left(elapsed, half_life) / 2**60 == pytest.approx(0.5 ** (elapsed / half_life), abs=1e-9)

    @given(st.integers(0, 10**12), st.integers(0, 10**5), st.integers(0, 10 * DAY))
    def test_use_is_the_integral_of_what_is_held(self, use: int, held: int, elapsed: int) -> None:
        factor = 0.5 ** (elapsed / DAY)
        exact = use * factor + held * DAY / 1000 / math.log(2) * (1 - factor)
        assert settled(use, held, elapsed, DAY) == pytest.approx(exact, rel=1e-6, abs=max(2.0, held * 1e-4))

    @given(st.integers(0, 10**9), st.integers(0, 10**4), st.lists(st.integers(0, DAY), max_size=20))
    def test_settling_often_changes_next_to_nothing(self, use: int, held: int, steps: list[int]) -> None:
        in_steps = use
        for step in steps:
            in_steps = settled(in_steps, held, step, DAY)
        at_once = settled(use, held, sum(steps), DAY)
        assert abs(in_steps - at_once) <= 2 * len(steps) + at_once * 1e-6

    def test_the_figures_are_the_same_everywhere(self) -> None:
        """Computed from whole numbers alone: a dump replays to the last digit."""
        assert left(12_345_678, DAY) == 1044204658693715955
        assert settled(987_654_321, 250, 12_345_678, DAY) == 897460144


class TestShares:
    def test_the_dominant_share_is_over_what_the_pool_has_and_by_weight(self) -> None:
        shares = Shares()
        shares.capacity = {"V100": 4000, "T4": 1000}
        shares.put_account("ml101", None, weight=2.0)
        shares.put(Use("ml101", "", "V100", 8000, START))
        shares.put(Use("ml101", "", "T4", 3000, START))
        assert shares.share("ml101", "", START) == 1.5

    def test_a_class_that_is_gone_counts_as_one_gpu(self) -> None:
        shares = Shares()
        shares.put(Use("ml101", "", "K80", 5000, START))
        assert shares.share("ml101", "", START) == 5.0

    @pytest.mark.parametrize("weight", [0.0, -1.0, math.nan])
    def test_a_weight_that_is_none_is_refused(self, weight: float) -> None:
        with pytest.raises(ValueError, match="must be above zero"):
            Shares().put_account("ml101", None, weight)

    def test_a_grant_is_charged_to_user_course_and_all_above(self) -> None:
        shares = Shares(Policy(entry_charge=60))
        shares.put_account("university", None)
        shares.put_account("ml101", "university")
        rows = shares.settle("ml101", "ada", "V100", START, granted=100)
        assert {(row.account, row.user, row.usage) for row in rows} == {
            ("ml101", "ada", 6000),
            ("ml101", "", 6000),
            ("university", "", 6000),
        }

    def test_rows_alone_carry_the_use_over_a_restart(self) -> None:
        pool = Pool.of(gpus(2), policy=Policy(half_life=DAY))
        rng = random.Random(5)
        rows: dict[tuple[str, str, str], Use] = {}
        held: Counter[tuple[str, str]] = Counter()
        for _ in range(200):
            pool.now += rng.randrange(10 * MINUTE)
            course, user = rng.choice(["ml101", "cv202"]), rng.choice("abc")
            change = rng.choice([100, -100]) if held[course, user] else 100
            for use in pool.shares.settle(course, user, "V100", pool.now, granted=max(0, change)):
                pool.shares.put(use)
                rows[use.account, use.user, use.gpu_class] = use
            pool.shares.hold(course, user, "V100", change)
            held[course, user] += change
        again = Pool.of(gpus(2), policy=Policy(half_life=DAY)).shares
        for use in rows.values():
            again.put(replace(use, usage=int(float(use.usage))))
        for (course, user), thousandths in held.items():
            again.hold(course, user, "V100", thousandths)
        later = pool.now + DAY // 3
        for account, user, _ in rows:
            assert again.uses(account, user, later) == pool.shares.uses(account, user, later)

    def test_what_nobody_holds_any_more_leaves_no_trace(self) -> None:
        shares = Shares()
        shares.hold("ml101", "ada", "V100", 100)
        shares.hold("ml101", "ada", "V100", -100)
        shares.put(Use("ml101", "ada", "V100", 1, START))
        shares.drop("ml101", "ada", "V100")
        shares.drop("ml101", "ada", "V100")
        assert shares.used("ml101", "ada", "V100", START + DAY) == 0


def naive_order(asks: list[Ask], shares: Shares, now: int) -> list[Ask]:
    """From the definition: look at everything again for each place."""
    uses = {
        owner: dict(shares.uses(*owner, now)) for ask in asks for owner in shares.owners(ask.course, ask.user)
    }

    def share(owner: tuple[str, str]) -> float:
        weight = 1.0 if owner[1] else shares._weights.get(owner[0], 1.0)
        return fairness.dominant(uses[owner], shares.capacity, weight)

    def first(among: list[Ask], depth: int) -> Ask:
        groups: dict[tuple[str, str], list[Ask]] = {}
        for ask in among:
            path = list(reversed(shares.owners(ask.course, ask.user)))
            path = [*path[:-1], path[-1]] if ask.user else path
            if depth >= len(path):
                return min(among, key=lambda ask: ask.turn)
            groups.setdefault(path[depth], []).append(ask)
        heads = [(share(owner), first(group, depth + 1)) for owner, group in groups.items()]
        return min(heads, key=lambda head: (head[0], head[1].turn))[1]

    order, left_over = [], list(asks)
    while left_over:
        ask = first(left_over, 0)
        left_over.remove(ask)
        order.append(ask)
        for owner in shares.owners(ask.course, ask.user):
            uses[owner][COST[0]] = uses[owner].get(COST[0], 0) + COST[1]
    return order


@st.composite
def contests(draw: st.DrawFn) -> tuple[Shares, list[Ask]]:
    shares = Shares()
    shares.capacity = {"V100": 4000, "T4": 2000}
    shares.put_account("university", None)
    for faculty in ("arts", "science"):
        shares.put_account(faculty, "university", draw(st.sampled_from([1.0, 2.0])))
    for number in range(4):
        shares.put_account(f"c{number}", draw(st.sampled_from(["arts", "science"])))
    asks = []
    for number in range(draw(st.integers(0, 14))):
        course, user = f"c{draw(st.integers(0, 3))}", draw(st.sampled_from(["ada", "bob", "cyd"]))
        for owner in shares.owners(course, user):
            if draw(st.booleans()):
                used = draw(st.integers(0, 5)) * 6000
                shares.put(Use(*owner, draw(st.sampled_from(["V100", "T4"])), used, START))
        asks.append(Ask(f"r{number}", course, SIZE, (draw(st.integers(0, 3)), f"r{number}"), user=user))
    return shares, asks


class TestOrder:
    @given(contests())
    def test_it_is_what_the_definition_says(self, contest: tuple[Shares, list[Ask]]) -> None:
        shares, asks = contest
        ordered = [ask.id for ask in shares.order(asks, cost, START)]
        assert ordered == [ask.id for ask in naive_order(asks, shares, START)]

    @given(contests(), st.randoms())
    def test_the_order_of_the_input_does_not_matter(
        self, contest: tuple[Shares, list[Ask]], shuffled: random.Random
    ) -> None:
        shares, asks = contest
        others = list(asks)
        shuffled.shuffle(others)
        assert shares.order(others, cost, START) == shares.order(asks, cost, START)

    @given(contests())
    def test_each_has_one_place(self, contest: tuple[Shares, list[Ask]]) -> None:
        shares, asks = contest
        assert Counter(ask.id for ask in shares.order(asks, cost, START)) == Counter(ask.id for ask in asks)

    def test_where_nobody_has_had_anything_it_is_first_come_first_served(self) -> None:
        pool = Pool.of(gpus())
        asks = [pool.ask(user=user, course=course) for user in "abc" for course in ("ml101", "cv202")]
        assert pool.shares.order(asks, cost, pool.now)[:2] == asks[:2]

    def test_who_floods_the_queue_is_next_only_once(self) -> None:
        pool = Pool.of(gpus())
        flood = [pool.ask(user="eve") for _ in range(50)]
        late = [pool.ask(user="bob"), pool.ask(user="cyd", course="cv202")]
        order = pool.shares.order([*flood, *late], cost, pool.now)
        assert order.index(late[1]) == 1
        assert order.index(late[0]) <= 3

    def test_the_user_with_less_is_next_within_a_course(self) -> None:
        pool = Pool.of(gpus())
        for use in pool.shares.settle("ml101", "ada", "V100", pool.now, granted=100):
            pool.shares.put(use)
        first, second = pool.ask(user="ada"), pool.ask(user="bob")
        assert pool.shares.order([first, second], cost, pool.now) == [second, first]

    def test_what_is_held_counts_as_time_goes_by(self) -> None:
        pool = Pool.of(gpus())
        pool.shares.put(Use("ml101", "ada", "V100", 0, pool.now))
        pool.shares.hold("ml101", "ada", "V100", 100)
        pool.shares.put(Use("ml101", "bob", "V100", 6000, pool.now))
        first, second = pool.ask(user="ada"), pool.ask(user="bob")
        assert pool.shares.order([first, second], cost, pool.now) == [first, second]
        assert pool.shares.order([first, second], cost, pool.now + HOUR) == [second, first]


def contend(weights: dict[str, float], seed: int, steps: int, sizes: list[str]) -> dict[str, float]:
    """GPU time by course where every course always has something waiting; as a part of the whole."""
    pool = Pool.of(gpus(2, 2), [], policy=Policy(half_life=6 * HOUR))
    rng = random.Random(seed)
    for name, weight in weights.items():
        pool.add_course(name, weight=weight)
    had: Counter[str] = Counter()
    for step in range(steps):
        for name in weights:
            while sum(ask.course == name for ask in pool.waiting.values()) < 12:
                size = rng.choice(sizes)
                pool.ask(size, name, rng.choice("abcdef"), life=rng.randrange(20 * MINUTE, 2 * HOUR))
        before = pool.now
        pool.decide()
        ends = min((until for _, _, until in pool.leases.values()), default=pool.now + HOUR)
        if step > steps // 4:
            for ask, placement, _ in pool.leases.values():
                had[ask.course] += placement.thousandths * (ends - before)
        pool.now = ends
        for name in [name for name, (_, _, until) in pool.leases.items() if until <= ends]:
            pool.end(name)
        pool.check()
    return {name: had[name] / sum(had.values()) for name in weights}


class TestContention:
    @pytest.mark.parametrize("seed", range(2))
    def test_courses_with_equal_weights_get_the_same(self, seed: int) -> None:
        got = contend(dict.fromkeys("abcd", 1.0), seed, 900, ["0.25 V100", "0.5 V100", "1 V100"])
        assert all(part == pytest.approx(0.25, abs=0.03) for part in got.values()), got

    @pytest.mark.parametrize("seed", range(2))
    def test_weights_are_what_courses_get(self, seed: int) -> None:
        weights = {"a": 1.0, "b": 2.0, "c": 5.0}
        got = contend(weights, seed, 900, ["0.1 V100", "0.5 V100"])
        assert all(got[name] == pytest.approx(weights[name] / 8, abs=0.04) for name in weights), got

    @settings(max_examples=15)
    @given(st.integers(1, 40), st.integers(1, 10))
    def test_a_flood_in_one_instant_leaves_others_their_part(self, flood: int, others: int) -> None:
        """Ten slices are free at once, and nobody has had any use yet that a sample could show."""
        pool = Pool.of(gpus())
        for _ in range(flood):
            pool.ask(user="eve")
        for number in range(others):
            pool.ask(user=f"user{number}")
        pool.decide()
        had = Counter(ask.user for ask, _, _ in pool.leases.values())
        fair = 10 // (others + 1)
        assert all(had[f"user{number}"] >= min(1, fair) for number in range(others))
        assert had["eve"] <= max(fair + 1, 10 - others)
