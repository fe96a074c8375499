"""What windows hold on GPUs: nothing ever exceeds one, and nobody stands on a seat when its class starts."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_kernels.pool.policy.agenda import Agenda
from gpu_kernels.pool.policy.agenda_model import FOREVER, Bench, Demand, Seating, Span, Stay
from gpu_kernels.pool.policy.seating import make_room, replan
from gpu_kernels.units import Slice, parse_size

pytestmark = pytest.mark.quick

HOUR = 3_600_000
MINUTE = 60_000


def span(name: str, start: float, end: float, *, lead: float = 10, rank: int = 0) -> Span:
    starts_at = int(start * HOUR)
    return Span(
        name, f"course-{name}", starts_at, int(end * HOUR), starts_at - int(lead * MINUTE), (rank, name)
    )


def demand(window: Span, seats: int, size: str = "0.1 V100") -> Demand:
    return Demand(window, parse_size(size), seats)


def benches(number: int = 1, mib: int = 1000) -> list[Bench]:
    return [Bench(n, "V100", mib) for n in range(1, number + 1)]


def seat(agenda: Agenda, wanted: Demand, gpus: list[Bench], stays=lambda _: ()) -> int:
    """Plan a window and put its seats; how many it lacks."""
    agenda.put_window(wanted.span)
    plan = agenda.plan(wanted, gpus, stays)
    for number, seating in enumerate(plan.seats, 1):
        agenda.put_seat(wanted.span.id, number, seating.gpu_id, seating.part)
    return plan.short


def test_without_windows_nothing_is_held():
    agenda = Agenda()
    assert agenda.held_for(0, FOREVER) == {}
    assert agenda.preempt_at(1, Slice(1, 1), Slice(1, 1), 0, FOREVER) is None
    assert agenda.preempt_at(1, Slice(2, 1), Slice(1, 1), 5, FOREVER) == 5


def test_a_plan_says_how_many_fit_and_who_is_in_the_way():
    agenda = Agenda()
    assert seat(agenda, demand(span("a", 10, 12), 8), benches()) == 0
    late = demand(span("b", 11, 13), 5)
    plan = agenda.plan(late, benches())
    assert (plan.fits, plan.short) == (2, 3)
    [collision] = plan.collisions
    assert (collision.course, collision.seats, collision.starts_at) == ("course-a", 8, 10 * HOUR)


def test_windows_that_only_touch_share_a_gpu():
    agenda = Agenda()
    assert seat(agenda, demand(span("a", 10, 12), 10), benches()) == 0
    assert seat(agenda, demand(span("b", 12, 13), 10), benches()) == 0
    assert seat(agenda, demand(span("c", 11.99, 12.01), 1), benches()) == 1


def test_seats_prefer_gpus_without_long_leases():
    stays = {1: [Stay(Slice(100, 100), 20 * HOUR)], 2: [Stay(Slice(900, 900), 9 * HOUR)]}
    plan = Agenda().plan(demand(span("a", 10, 12), 12), benches(2), lambda gpu: stays[gpu])
    assert [seating.gpu_id for seating in plan.seats] == [2] * 10 + [1] * 2


def test_leases_that_stay_too_long_are_named():
    stays = [Stay(Slice(600, 600), 14 * HOUR), Stay(Slice(200, 200), 10 * HOUR)]
    plan = Agenda().plan(demand(span("a", 10, 12), 10), benches(), lambda _: stays)
    assert (plan.fits, plan.leases, plan.leases_until) == (4, 1, 14 * HOUR)


def test_nothing_is_planned_on_a_server_that_ends_before_the_class_does():
    gpus = [replace(benches()[0], until=11 * HOUR)]
    assert Agenda().plan(demand(span("a", 10, 12), 1), gpus).fits == 0
    assert Agenda().plan(demand(span("a", 10, 11), 1), gpus).fits == 1


def test_memory_and_compute_both_count():
    agenda = Agenda()
    assert seat(agenda, demand(span("a", 10, 12), 1, "999 MiB"), benches()) == 0
    assert agenda.plan(demand(span("b", 10, 12), 2, "1 MiB"), benches()).fits == 1


def test_a_lease_that_ends_before_the_class_may_use_its_seats():
    agenda = Agenda()
    seat(agenda, demand(span("a", 10, 12), 8), benches())
    assert agenda.held_for(0, 10 * HOUR) == {}
    assert agenda.held_for(0, 10 * HOUR + 1) == {1: Slice(800, 800)}


def test_what_ends_before_the_class_makes_room_for_who_stays():
    agenda = Agenda()
    seat(agenda, demand(span("a", 10, 12), 8), benches())
    stays = [Stay(Slice(600, 600), 9 * HOUR)]
    assert agenda.held_for(0, 11 * HOUR, lambda _: stays) == {1: Slice(200, 200)}


def test_from_the_lead_time_on_nothing_new_is_placed_on_seats():
    agenda = Agenda()
    seat(agenda, demand(span("a", 10, 12), 8), benches())
    lead = 10 * HOUR - 10 * MINUTE
    soon = lead + MINUTE
    assert agenda.held_for(lead - 1, soon) == {}
    assert agenda.held_for(lead, soon) == {1: Slice(800, 800)}
    assert agenda.held_for(lead - 1, FOREVER, preemptible=True) == {}
    assert agenda.held_for(lead, FOREVER, preemptible=True) == {1: Slice(800, 800)}
    part, free = Slice(300, 300), Slice(1000, 1000)
    assert agenda.preempt_at(1, part, free, lead - 1, FOREVER) == 10 * HOUR
    assert agenda.preempt_at(1, part, free, lead, FOREVER) == lead
    assert agenda.preempt_at(1, Slice(200, 200), free, lead, FOREVER) is None


def test_the_first_class_that_needs_the_room_says_until_when():
    agenda = Agenda()
    seat(agenda, demand(span("small", 10, 11), 2), benches())
    seat(agenda, demand(span("large", 14, 15), 9), benches())
    part, free = Slice(200, 200), Slice(1000, 1000)
    assert agenda.preempt_at(1, part, free, 0, FOREVER) == 14 * HOUR
    assert agenda.preempt_at(1, part, free, 0, 14 * HOUR) is None


def test_a_member_on_a_seat_makes_way_for_the_next_class_only():
    agenda = Agenda()
    seat(agenda, demand(span("a", 10, 12), 10), benches())
    seat(agenda, demand(span("b", 12, 13), 10), benches())
    agenda.drop_seat("a", 1)
    now = 12 * HOUR - 5 * MINUTE  # within the lead of b
    part = Slice(100, 100)
    assert agenda.preempt_at(1, part, Slice(1000, 1000), now, FOREVER, seated=True) == 12 * HOUR
    # A neighbour's ended lease that is not confirmed yet does not stand against it.
    assert agenda.preempt_at(1, part, Slice(100, 100), 10 * HOUR, 12 * HOUR, seated=True) is None


def test_a_free_seat_is_one_that_is_really_free():
    agenda = Agenda()
    seat(agenda, demand(span("a", 10, 12), 11), benches(2))
    assert agenda.free_seat("a", lambda _: True) == 1
    assert agenda.free_seat("a", lambda seating: seating.gpu_id == 2) == 11
    assert agenda.free_seat("a", lambda _: False) is None
    assert agenda.free_seat("no such window", lambda _: True) is None


def test_rows_may_come_in_any_order():
    agenda = Agenda()
    agenda.put_seat("a", 1, 1, Slice(100, 100))
    assert agenda.held_for(0, FOREVER) == {}
    agenda.put_window(span("a", 10, 12))
    assert agenda.held_for(0, FOREVER) == {1: Slice(100, 100)}
    agenda.drop_window("a")
    assert agenda.held_for(0, FOREVER) == {}
    agenda.put_window(span("a", 11, 12))
    assert agenda.held_for(0, 11 * HOUR + 1) == {1: Slice(100, 100)}
    agenda.drop_seat("a", 1)
    agenda.drop_seat("a", 1)
    assert agenda.held_for(0, FOREVER) == {}


def test_a_lost_gpu_shrinks_the_latest_confirmed_first():
    agenda, gpus = Agenda(), benches(3)
    wanted = [demand(span(name, 10, 12, rank=rank), 10) for rank, name in enumerate("abc")]
    for each in wanted:
        assert seat(agenda, each, gpus) == 0
    lost = next(iter(agenda.seats("a").values())).gpu_id
    left = [gpu for gpu in gpus if gpu.id != lost]
    planned = replan(agenda, wanted, left)
    assert {name: len(seats) for name, seats in planned.items()} == {"a": 10, "b": 10, "c": 0}
    assert planned["b"] == agenda.seats("b")


def test_a_gpu_that_comes_back_fills_what_was_short():
    agenda, gpus = Agenda(), benches(2)
    wanted = [demand(span("a", 10, 12, rank=1), 15)]
    assert seat(agenda, wanted[0], gpus[:1]) == 5
    assert len(replan(agenda, wanted, gpus)["a"]) == 15


def test_small_seats_move_to_let_a_large_one_in():
    agenda, gpus = Agenda(), benches(2)
    agenda.put_window(span("a", 10, 12))
    for number, gpu in enumerate((1, 2), 1):
        agenda.put_seat("a", number, gpu, Slice(100, 100))
    whole = demand(span("b", 11, 13), 1, "1 V100")
    assert agenda.plan(whole, gpus).fits == 0
    moved = make_room(agenda, [whole], [demand(span("a", 10, 12), 2)], gpus)
    assert moved is not None
    assert len({seating.gpu_id for seating in moved["a"].values()}) == 1
    assert make_room(agenda, [whole], [demand(span("a", 10, 12), 11)], gpus) is None


# Properties


@dataclass
class World:
    gpus: list[Bench]
    stays: dict[int, list[Stay]]
    wanted: list[Demand]

    def there(self, gpu_id: int) -> list[Stay]:
        return self.stays.get(gpu_id, [])


SIZES = ("0.1 V100", "0.25 V100", "0.02 GPU", "300 MiB", "1 V100", "0.5 A100")


@st.composite
def worlds(draw: st.DrawFn) -> World:
    gpus = [
        Bench(n, draw(st.sampled_from(["V100", "A100"])), draw(st.sampled_from([1000, 777, 4096])))
        for n in range(1, draw(st.integers(1, 4)) + 1)
    ]
    stays = {}
    for gpu in gpus:
        parts = draw(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 30)), max_size=3))
        stays[gpu.id] = [Stay(Slice(min(n, gpu.mib // 3), n), hour * HOUR) for n, hour in parts]
    wanted = []
    for n in range(draw(st.integers(1, 5))):
        start = draw(st.integers(1, 20))
        window = span(f"w{n}", start, start + draw(st.integers(1, 4)), lead=draw(st.integers(0, 90)), rank=n)
        wanted.append(demand(window, draw(st.integers(1, 12)), draw(st.sampled_from(SIZES))))
    return World(gpus, stays, wanted)


def planned(world: World) -> Agenda:
    agenda = Agenda()
    for wanted in world.wanted:
        seat(agenda, wanted, world.gpus, world.there)
    return agenda


def held_at(agenda: Agenda, gpu_id: int, at: int) -> Slice:
    """What seats hold at that instant, added up seat by seat."""
    mib = thousandths = 0
    for window in agenda.spans(at, at + 1):
        for seating in agenda.seats(window.id).values():
            if seating.gpu_id == gpu_id:
                mib, thousandths = mib + seating.part.mib, thousandths + seating.part.thousandths
    return Slice(mib, thousandths)


def instants(world: World) -> list[int]:
    edges = {edge for w in world.wanted for edge in (w.span.starts_at, w.span.ends_at, w.span.lead_at)}
    edges |= {stay.until for stays in world.stays.values() for stay in stays if stay.until < FOREVER}
    return sorted({max(0, edge + by) for edge in edges for by in (-1, 0, 1)})


def assert_nothing_exceeds_a_gpu(agenda: Agenda, world: World, *, now: int = 0) -> None:
    for gpu in world.gpus:
        for at in instants(world):
            if at < now:
                continue
            held = held_at(agenda, gpu.id, at)
            if held == Slice(0, 0):
                continue
            staying = [stay.part for stay in world.there(gpu.id) if stay.until > at]
            assert held.mib + sum(part.mib for part in staying) <= gpu.mib
            assert held.thousandths + sum(part.thousandths for part in staying) <= gpu.thousandths


@given(worlds())
@settings(deadline=None)
def test_seats_and_leases_fit_together_at_every_instant(world):
    assert_nothing_exceeds_a_gpu(planned(world), world)


@given(worlds(), st.integers(0, 2**32))
@settings(deadline=None)
def test_the_order_of_gpus_and_leases_does_not_matter(world, seed):
    shuffled = World(list(world.gpus), {key: list(value) for key, value in world.stays.items()}, world.wanted)
    shuffle = random.Random(seed).shuffle
    shuffle(shuffled.gpus)
    for stays in shuffled.stays.values():
        shuffle(stays)
    one, other = planned(world), planned(shuffled)
    for wanted in world.wanted:
        assert one.seats(wanted.span.id) == other.seats(wanted.span.id)


@given(worlds())
@settings(deadline=None)
def test_a_short_plan_is_short_because_no_gpu_takes_one_more(world):
    agenda = planned(world)
    for wanted in world.wanted:
        lacks = wanted.seats - len(agenda.seats(wanted.span.id))
        if lacks:
            assert agenda.plan(wanted, world.gpus, world.there).fits == 0


@given(
    worlds(), st.lists(st.tuples(st.integers(0, 24), st.integers(1, 500), st.integers(1, 24), st.booleans()))
)
@settings(deadline=None)
def test_no_lease_is_on_a_seat_when_the_class_starts(world, asks):
    """Leases come as time passes, placed as the agenda says; none is told an earlier end than at first."""
    agenda = planned(world)
    for hour, thousandths, life, preemptible in sorted(asks):
        now, until = hour * HOUR, (hour + life) * HOUR
        world.stays = {gpu: [s for s in stays if s.until > now] for gpu, stays in world.stays.items()}
        held = agenda.held_for(now, until, world.there, preemptible=preemptible)
        for gpu in world.gpus:
            there = world.there(gpu.id)
            mine = held.get(gpu.id, Slice(0, 0))
            used = Slice(sum(s.part.mib for s in there), sum(s.part.thousandths for s in there))
            part = Slice(max(1, gpu.mib * thousandths // 1000), thousandths)
            free = Slice(gpu.mib - used.mib, gpu.thousandths - used.thousandths)
            if part.mib > free.mib - mine.mib or part.thousandths > free.thousandths - mine.thousandths:
                continue
            preempt_at = agenda.preempt_at(gpu.id, part, free, now, until, world.there)
            if preemptible:
                assert preempt_at is None or preempt_at > now
            else:
                assert preempt_at is None
            world.stays[gpu.id] = [*there, Stay(part, min(until, preempt_at or FOREVER))]
            break
        assert_nothing_exceeds_a_gpu(agenda, world, now=now)


@given(worlds(), st.data())
@settings(deadline=None)
def test_planning_anew_keeps_within_what_is_left_and_is_fair(world, data):
    agenda = planned(world)
    gone = data.draw(st.sets(st.sampled_from([gpu.id for gpu in world.gpus])))
    world.gpus = [gpu for gpu in world.gpus if gpu.id not in gone]
    before = {w.span.id: dict(agenda.seats(w.span.id)) for w in world.wanted}
    after = replan(agenda, world.wanted, world.gpus, world.there)
    assert before == {w.span.id: dict(agenda.seats(w.span.id)) for w in world.wanted}  # nothing in place
    new = Agenda()
    for wanted in world.wanted:
        new.put_window(wanted.span)
        seats = after[wanted.span.id]
        assert len(seats) <= wanted.seats
        assert set(seats) <= set(range(1, wanted.seats + 1))
        for number, seating in seats.items():
            assert seating.gpu_id not in gone
            new.put_seat(wanted.span.id, number, seating.gpu_id, seating.part)
    assert_nothing_exceeds_a_gpu(new, world)
    for wanted in world.wanted:  # short only where those confirmed before leave no room
        if len(after[wanted.span.id]) < wanted.seats:
            assert new.plan(wanted, world.gpus, world.there, before=(wanted.span.rank[0] + 1, "")).fits == 0
    if not gone:
        assert after == {w.span.id: after[w.span.id] for w in world.wanted}
        assert all(after[name].items() >= seats.items() for name, seats in before.items())


@given(worlds(), st.data())
@settings(deadline=None)
def test_undoing_changes_leaves_what_was_there(world, data):
    agenda = planned(world)
    asked = [(now * HOUR, until * HOUR) for now in range(0, 24, 3) for until in (now + 1, now + 8)]
    before = [agenda.held_for(now, until, world.there) for now, until in asked]
    changed = data.draw(st.lists(st.sampled_from(world.wanted), min_size=1))
    undo = []
    for wanted in changed:
        window = agenda.span(wanted.span.id)
        seats = dict(agenda.seats(wanted.span.id))
        action = data.draw(st.sampled_from(["drop", "move", "take"]))
        if action == "take" and seats:
            number = min(seats)
            agenda.drop_seat(wanted.span.id, number)
            undo.append(("seat", wanted.span.id, number, seats[number]))
        elif action == "move" and window is not None:
            agenda.put_window(
                replace(window, starts_at=window.starts_at + HOUR, ends_at=window.ends_at + HOUR)
            )
            undo.append(("window", window))
        elif window is not None:
            agenda.drop_window(wanted.span.id)
            undo.append(("window", window))
    for what, *rest in reversed(undo):
        if what == "window":
            agenda.put_window(rest[0])
        else:
            window_id, number, seating = rest
            assert isinstance(seating, Seating)
            agenda.put_seat(window_id, number, seating.gpu_id, seating.part)
    assert [agenda.held_for(now, until, world.there) for now, until in asked] == before


@pytest.mark.parametrize("size", ["2 V100", "5000 MiB", "0.1 A100"])
def test_a_gpu_that_cannot_bear_a_seat_bears_none(size):
    assert benches()[0].seat(parse_size(size)) is None
