"""Every order in which a kernel's user, its requests and the controller may come: none loses a slice, leaves
one behind, or shows what is not so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from gpu_kernels.client import Lease, Slot
from gpu_kernels.client.lease_holder import Withdrawn
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.errors import PoolFull
from gpu_kernels.provisioner.lifecycle import Do, Effect, Standing, Transition

SIZES = ("0.1 V100", "0.2 V100")


@dataclass(frozen=True)
class Sent:
    """A request at the controller, and what its thread has not told yet. ``state``: ``asked`` until the
    controller has it, then ``queued``, ``granted``, ``refused`` or ``ended``. ``told``: the last of these
    that the kernel's side has heard.
    """

    number: int
    request: LeaseRequest
    state: str = "asked"
    told: str = "asked"
    withdrawn: bool = False

    @property
    def living(self) -> bool:
        return self.state in ("queued", "granted")


@dataclass(frozen=True)
class World:
    """An attachment and the controller's one slot for it. ``held``: what the kernel's side keeps renewing."""

    standing: Standing
    sent: tuple[Sent, ...] = ()
    held: frozenset[int] = frozenset()
    asked: int = 0

    def key(self) -> object:
        """Worlds that differ by nothing that matters."""
        now = self.standing
        line = [(each.number, each.request.size, each.started) for each in now.line]
        held = None if now.held is None else now.held.number
        texts = (now.refusal is None, now.declined is None, now.loss is None, now.ended)
        sent = [(each.number, each.state, each.told, each.withdrawn) for each in self.sent]
        sizes = (now.wish and now.wish.size, now.own and now.own.size, now.given_back_by_user)
        return repr(
            (line, [each.number for each in now.left], now.on_its_way, held, texts, sent, sizes, self.held)
        )


def lease_of(sent: Sent) -> Lease:
    blank = dict.fromkeys(Lease.__struct_fields__)
    state = {"queued": "queued", "granted": "active"}.get(sent.state, "released")
    return Lease(**{**blank, "id": f"lease-{sent.number}", "size": sent.request.size, "course": "ml101",
                    "state": state, "created_at": str(sent.number)})  # fmt: skip


def changed(world: World, number: int, **changes: object) -> World:
    return replace(
        world,
        sent=tuple(replace(each, **changes) if each.number == number else each for each in world.sent),
    )


def happen(world: World, event) -> World:
    transition = Transition(world.standing)
    event(transition)
    world = replace(world, standing=transition.now)
    for effect in transition.effects:
        world = carry_out(world, effect)
    return world


def carry_out(world: World, effect: Effect) -> World:
    number = effect.number
    if effect.do is Do.START:
        (asked,) = [each for each in world.standing.line if each.number == number]
        assert all(each.state != "asked" for each in world.sent), "two are on their way at once"
        return replace(world, sent=(*world.sent, Sent(number, asked.request)))
    if effect.do is Do.HOLD:
        return replace(world, held=world.held | {number})
    if effect.do is Do.LEAVE:
        world = changed(world, number, withdrawn=True)
    else:
        world = replace(world, held=world.held - {number})
    # Released, as far as it is known.
    for each in world.sent:
        if each.number == number and each.living and (each.told != "asked" or effect.do is Do.GIVE_BACK):
            world = changed(world, number, state="ended")
    return world


def users(world: World) -> Iterator[World]:
    """What the kernel's user, and its server, may do."""
    number = world.asked
    for size in SIZES:
        request = LeaseRequest(size, Slot("", "a"), f"key-{number}", "kernel-1")
        asked = replace(world, asked=number + 1)
        yield happen(
            asked, lambda transition, request=request: transition.ask(number, request, float(number))
        )
    for event in (Transition.keep, Transition.release, Transition.end):
        yield happen(world, event)


def controllers(world: World) -> Iterator[World]:
    """What the controller may do with what it has."""
    for each in world.sent:
        if each.state == "asked":
            yield changed(world, each.number, state="refused")
            for state in ("queued", "granted"):
                yield changed(replaced(world, state), each.number, state=state)
        elif each.state == "queued":
            yield changed(replaced(world, "granted", but=each.number), each.number, state="granted")
            yield changed(world, each.number, state="ended")
        elif each.state == "granted":
            yield changed(world, each.number, state="ended")


def replaced(world: World, state: str, but: int | None = None) -> World:
    """What a new request of the slot ends: another that is queued, and what is held once it is granted."""
    ends = ("queued", "granted") if state == "granted" else ("queued",)
    for each in world.sent:
        if each.number != but and each.state in ends:
            world = changed(world, each.number, state="ended")
    return world


def threads(world: World) -> Iterator[World]:
    """What a request's thread, or the keeper, may tell next."""
    for each in world.sent:
        number, lease = each.number, lease_of(each)
        if each.told == "over":
            if each.state == "ended" and number in world.held:  # the keeper hears of it
                lost = replace(world, held=world.held - {number})
                yield happen(lost, lambda transition, number=number: transition.lost(number, "lost"))
        elif each.state != "asked" and each.told != each.state:
            yield told(world, each, lease)
        elif each.withdrawn and each.told == "queued":
            yield over(world, each, Withdrawn("withdrawn"))


def told(world: World, each: Sent, lease: Lease) -> World:
    number = each.number
    if each.withdrawn:  # whatever it was granted, its thread gives it back
        return over(world, each, Withdrawn("withdrawn"))
    if each.state == "queued":
        heard = changed(world, number, told="queued")
        return happen(heard, lambda transition: transition.heard(number, lease))
    if each.state == "granted":
        granted = changed(world, number, told="over")
        return happen(granted, lambda transition: transition.granted(number, lease))
    return over(world, each, PoolFull("no"))


def over(world: World, each: Sent, error: Exception) -> World:
    state = "ended" if each.living else each.state
    world = changed(world, each.number, told="over", state=state)
    return happen(world, lambda transition: transition.failed(each.number, error))


def check(world: World, quiet: bool) -> None:
    now = world.standing
    assert len(world.held) <= 1
    assert world.held == ({now.held.number} if now.held is not None else set())
    assert len({each.number for each in now.line}) == len(now.line)
    if now.ended:
        assert now.held is None
        assert not now.line
    if not quiet:
        return
    # Nobody has anything left to tell: what the controller has is what is held and waited for, and no more.
    living = {each.number for each in world.sent if each.living}
    known = {each.number for each in now.line} | world.held
    assert living == known, "what is held and waited for is not what the controller has"
    assert now.on_its_way is None


def explore(start: World, users_turns: int) -> int:
    seen: set[object] = set()
    waiting = deque([(start, users_turns)])
    while waiting:
        world, turns = waiting.popleft()
        key = (world.key(), turns)
        if key in seen:
            continue
        seen.add(key)
        told_next = list(threads(world))
        on_its_way = any(each.state == "asked" for each in world.sent)
        check(world, quiet=not told_next and not on_its_way)
        waiting.extend((each, turns) for each in told_next)
        waiting.extend((each, turns) for each in controllers(world))
        if turns:
            waiting.extend((each, turns - 1) for each in users(world))
    return len(seen)


def test_in_every_order_nothing_is_lost_and_nothing_is_left_behind() -> None:
    assert explore(World(Standing()), users_turns=3) > 5000


def test_a_refusal_in_the_line_leaves_the_place_of_what_was_asked_for_before() -> None:
    world = World(Standing())
    first, second = SIZES
    for number, size in enumerate((first, second)):
        request = LeaseRequest(size, Slot("", "a"), f"key-{number}", "kernel-1")
        world = happen(world, lambda transition, n=number, r=request: transition.ask(n, r, float(n)))
        if number == 0:
            world = changed(world, 0, state="queued")
            (world,) = threads(world)
    world = changed(world, 1, state="refused")
    (world,) = threads(world)
    assert [each.request.size for each in world.standing.line] == [first]
    assert "You still wait for 0.1 V100" in (world.standing.declined or "")


@pytest.mark.parametrize("fault", [Do.GIVE_BACK, Do.LEAVE])
def test_the_exploration_finds_a_lease_that_is_forgotten(fault: Do, monkeypatch) -> None:
    """That it can fail: an effect that is left out leaves something behind."""
    carried_out = carry_out
    monkeypatch.setitem(
        globals(),
        "carry_out",
        lambda world, effect: world if effect.do is fault else carried_out(world, effect),
    )
    with pytest.raises(AssertionError):
        explore(World(Standing()), users_turns=3)
