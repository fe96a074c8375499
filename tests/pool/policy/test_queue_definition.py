"""The queue against its definition, written as plainly as can be; nobody starves."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_kernels.pool.policy.model import Ask, Placement
from gpu_kernels.pool.policy.promises import Hold, Outlook, held_back
from gpu_kernels.pool.policy.queue import Pass, decide
from gpu_kernels.pool.policy.scene import Patience, Scene
from tests.pool.policy.scenes import HOUR, LIFE, MINUTE, START, Pool, gpus


def naive(asks: list[Ask], scene: Scene) -> dict[str, Placement]:
    """The granted placements from the definition, with nothing remembered from one ask to the next. An ask
    may have what it fits into now and, where it lasts beyond a promise, what it fits into beside that then.
    """
    granted: dict[str, Placement] = {}
    holds: list[tuple[Hold, Ask]] = []
    new: list[tuple[int, Ask, Placement]] = []

    def room(ask: Ask, gpu_class: str, until: int) -> int:
        rooms = [scene.tree.room(ask.course, gpu_class)]
        for hold, holder in holds:
            if until > hold.at and hold.promise.gpu_class == gpu_class:
                with scene.tree.trial():
                    for lease in scene.held():
                        if lease.until <= hold.at:
                            scene.tree.add_use(lease.course, lease.gpu_class, -lease.counted)
                    for ends, other, placement in new:
                        if ends <= hold.at:
                            scene.tree.add_use(other.course, placement.gpu_class, -placement.thousandths)
                    asked = scene.index.demands(holder.size)[gpu_class]
                    scene.tree.add_use(holder.course, gpu_class, asked)
                    rooms.append(scene.tree.room(ask.course, gpu_class))
        return min(rooms)

    with scene.index.trial(), scene.tree.trial():
        for ask in Pass(scene).line(asks):
            until = scene.now + ask.life
            rooms = {c: room(ask, c, until) for c in scene.index.demands(ask.size)}
            held = held_back([hold for hold, _ in holds], until, {})
            found = scene.index.place(ask.size, room=lambda c, rooms=rooms: rooms.get(c, 0), held=held)
            if found is not None:
                granted[ask.id] = found
                new.append((until, ask, found))
                scene.index.take(found)
                scene.tree.add_use(ask.course, found.gpu_class, found.thousandths)
            elif ask.promised_at is not None:
                holds += [(hold, ask) for hold in _promise(ask, scene)]
    return granted


def _promise(ask: Ask, scene: Scene) -> list[Hold]:
    """The first instant in any class, found by trying every end."""
    outlook, found = Outlook(scene), []
    for gpu_class, asked in scene.index.demands(ask.size).items():
        own = scene.tree.levels(ask.course, gpu_class)[-1].room
        if own is not None and own < asked:
            continue
        for at in sorted({scene.now, *(lease.until for lease in scene.held())}):
            with scene.index.trial(), scene.tree.trial():
                for lease in scene.held():
                    if lease.until <= at:
                        scene.tree.add_use(lease.course, lease.gpu_class, -lease.counted)
                        for gpu_id, part in lease.parts:
                            scene.index.put(scene.index.gpu(gpu_id).without_part(part))  # type: ignore[union-attr]
                room = scene.tree.room(ask.course, gpu_class)
                fits = scene.index.place(ask.size, room=lambda c, r=room, k=gpu_class: r if c == k else 0)
            if fits is not None:
                promise = outlook.earliest(ask, gpu_class, scene.now)
                assert promise is not None
                assert promise.at <= at
                found.append(replace(promise, at=at))
                break
    return [outlook.hold(ask, min(found, key=lambda promise: promise.at))] if found else []


SIZES = ["0.1 V100", "0.5 V100", "1 V100", "2 V100", "1 T4", "0.3 GPU", "8000 MiB", "1 GPU"]


@st.composite
def scenes(draw: st.DrawFn) -> Pool:
    pool = Pool.of(
        [*gpus(2, 2), *gpus(1, 2, gpu_class="T4", mib=16_000, first=5)],
        {"ml101": draw(st.sampled_from([None, 1500])), "cv202": draw(st.sampled_from([None, 600]))},
    )
    for _ in range(draw(st.integers(0, 8))):
        pool.ask(
            draw(st.sampled_from(SIZES)),
            draw(st.sampled_from(["ml101", "cv202"])),
            draw(st.sampled_from("ab")),
            life=draw(st.integers(1, 6)) * HOUR,
        )
    pool.decide()
    pool.waiting.clear()
    pool.now += MINUTE
    holder = draw(st.sampled_from([None, *SIZES]))
    if holder is not None:
        pool.ask(holder, user="holder", promised_at=START, asked_at=START)
    for _ in range(draw(st.integers(0, 8))):
        pool.ask(
            draw(st.sampled_from(SIZES)),
            draw(st.sampled_from(["ml101", "cv202"])),
            draw(st.sampled_from("ab")),
            life=draw(st.integers(1, 6)) * HOUR,
        )
    return pool


class TestAgainstTheDefinition:
    @settings(max_examples=150, deadline=None)
    @given(scenes())
    def test_a_pass_grants_what_the_definition_grants(self, pool: Pool) -> None:
        asks = list(pool.waiting.values())
        assert decide(asks, pool.scene()).granted == naive(asks, pool.scene())

    @given(scenes(), st.randoms())
    def test_the_order_of_the_input_does_not_matter(self, pool: Pool, shuffled: random.Random) -> None:
        asks = list(pool.waiting.values())
        before = decide(asks, pool.scene())
        shuffled.shuffle(asks)
        assert decide(asks, pool.scene()) == before

    @given(scenes())
    def test_a_pass_changes_nothing(self, pool: Pool) -> None:
        before = pool.index.gpus(), [pool.tree.use(c, "V100") for c in ("ml101", "cv202")]
        decide(list(pool.waiting.values()), pool.scene())
        after = pool.index.gpus(), [pool.tree.use(c, "V100") for c in ("ml101", "cv202")]
        assert after == before

    @given(scenes())
    def test_what_is_granted_fits(self, pool: Pool) -> None:
        pool.decide()
        pool.check()


@pytest.mark.parametrize("large", ["1 V100", "2 V100", "0.6 V100"])
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_stream_of_small_requests_never_starves_a_large_one(large: str, data: st.DataObject) -> None:
    """Whatever comes and goes, its promise only moves earlier and is kept; and it comes in bounded time."""
    patience = Patience(longest=4 * HOUR)
    pool = Pool.of(gpus(2, 2), ["ml101", "cv202", "nlp303"], patience=patience)
    rng = random.Random(data.draw(st.integers(0, 2**32), label="seed"))
    small = ["0.05 V100", "0.1 V100", "0.25 V100", "0.5 V100"]

    def stream() -> None:
        for _ in range(rng.randrange(12)):
            pool.ask(
                rng.choice(small),
                rng.choice(["cv202", "nlp303", "ml101"]),
                f"user{rng.randrange(40)}",
                life=rng.randrange(MINUTE, LIFE + 1),
            )
        pool.decide()

    for _ in range(6):
        stream()
    ask = pool.ask(large, user="ada")
    promised = pool.now + patience.longest + (len(pool.waiting) + 1) * LIFE
    for _ in range(600):
        if ask.id in pool.leases:
            break
        stream()
        waits = pool.waiting.get(ask.id)
        if waits is not None and waits.promised_at is not None:
            at = decide(list(pool.waiting.values()), pool.scene()).promises[ask.id].at
            assert at <= promised
            promised = at
        for name in [name for name in pool.leases if name != ask.id and rng.random() < 0.02]:
            pool.end(name)
        pool.decide()
        pool.pass_time(pool.now + rng.randrange(1, 8 * MINUTE))
        pool.check()
        for name in [name for name, other in pool.waiting.items() if name != ask.id and rng.random() < 0.1]:
            del pool.waiting[name]
    assert ask.id in pool.leases
    granted_at = pool.leases[ask.id][2] - ask.life
    assert granted_at <= promised
