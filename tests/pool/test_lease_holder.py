"""The lease holder against a controller that answers in every order: what it holds is in force, and what it
lets go of is held by nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from gpu_kernels.client import Lease, Lost, Renewal, Renewed, Slot
from gpu_kernels.client.lease_holder import LeaseHolder, State
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.client.requests import Pause, Script
from gpu_kernels.errors import GPUKernelsError, PoolError, PoolFull, PoolUnavailable
from gpu_kernels.resources.leases import Why

TTL = 60.0
STEPS = ("grant", "refuse", "away", "lose the answer", "pass", "expire", "revoke", "sleep", "grant late")
"""What happens at a request, before it is answered: ``pass`` is nothing, ``sleep`` that time passes, which it
does before the answer to ``grant late`` comes."""
ENDS = {"expire": "expired", "revoke": "revoked"}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Controller:
    """One slot, as a pool's controller keeps it: what is asked for by a key is one lease. It follows its
    steps, and grants at once when they are over.
    """

    def __init__(self, steps: tuple[str, ...], clock: Clock) -> None:
        self.steps, self.clock = list(steps), clock
        self.leases: dict[str, Lease] = {}

    def answer(self, request: Any) -> Any:
        step = self.steps.pop(0) if self.steps else "grant"
        if step == "sleep":
            self.clock.now += 2 * TTL
        if step == "away":
            raise PoolUnavailable("away")
        late = step == "grant late"
        if late:
            step = "grant"
        if step in ENDS:
            self._end(ENDS[step])
        if step == "refuse" and request.path == "/leases" and request.body["key"] not in self.leases:
            raise PoolFull("full")
        answer = self._carry_out(request, step)
        if step == "lose the answer":
            raise PoolUnavailable("away")
        self.clock.now += TTL / 2 if late else 0.1
        return answer

    def _carry_out(self, request: Any, step: str) -> Any:
        if step == "grant":
            for key, lease in self.leases.items():
                if lease.queued:
                    self.leases[key] = replace(lease, state="active", position=None, expires_in=TTL)
        if request.path == "/leases" and request.method == "GET":
            return type("Page", (), {"items": list(self.leases.values()), "next": None})
        if request.path == "/leases":
            return self._ask(request.body, step)
        if request.path == "/leases/renew":
            return self._renew(request.body)
        lease_id = request.path.split("/")[2]
        if request.path.endswith("/why"):
            return Why(id=lease_id, state="queued", text="others hold it", position=1, waiting=1)
        if request.path.endswith("/release"):
            self._end("released", lease_id)
        return self.leases[lease_id]

    def _ask(self, body: Any, step: str) -> Lease:
        key = body["key"]
        if key not in self.leases:
            blank: dict[str, Any] = dict.fromkeys(Lease.__struct_fields__)
            lease = Lease(**{**blank, "id": key, "ttl": TTL, "epoch": 1, "size": "1 V100"})
            lease = replace(lease, holder=body["holder"], state="queued", position=1)
            if step == "grant":
                lease = replace(lease, state="active", position=None, expires_in=TTL)
            self.leases[key] = lease
        return self.leases[key]

    def _renew(self, body: Any) -> Renewal:
        mine = [self.leases[each["id"]] for each in body["leases"]]
        return Renewal(
            tuple(Renewed(lease.id, TTL) for lease in mine if lease.in_force),
            tuple(Lost(lease.id, lease.state, "over") for lease in mine if not lease.in_force),
        )

    def _end(self, state: str, lease_id: str | None = None) -> None:
        for key, lease in self.leases.items():
            if (lease_id in (None, key)) and (lease.queued or lease.in_force):
                self.leases[key] = replace(lease, state=state, position=None, expires_in=None)

    @property
    def living(self) -> list[Lease]:
        return [lease for lease in self.leases.values() if lease.queued or lease.in_force]


def carry_out(script: Script[Any], controller: Controller) -> Any:
    answer: Any = None
    failure: PoolError | None = None
    while True:
        try:
            step = script.send(answer) if failure is None else script.throw(failure)
        except StopIteration as done:
            return done.value
        answer = failure = None
        if isinstance(step, Pause):
            controller.clock.now += step.seconds
            continue
        try:
            answer = controller.answer(step)
        except PoolError as error:
            failure = error


def played(steps: tuple[str, ...], wait: float | None, **how: Any) -> tuple[LeaseHolder, Controller, Any]:
    clock = Clock()
    controller = Controller(steps, clock)
    request = LeaseRequest("1 V100", Slot("", "a"), "key", "key", wait=wait)
    holder = LeaseHolder(request, clock=clock, **how)
    try:
        return holder, controller, carry_out(holder.acquire(), controller)
    except GPUKernelsError as error:
        return holder, controller, error


def courses(length: int) -> Iterator[tuple[str, ...]]:
    for many in range(length + 1):
        yield from product(STEPS, repeat=many)


DRIVERS = [
    pytest.param(None, {"outlives_outages": True}, id="a kernel's"),
    pytest.param(20.0, {"outlives_outages": True}, id="a patient kernel's"),
    pytest.param(20.0, {"by_trust": True}, id="a reservation's"),
    pytest.param(0.0, {}, id="a command's"),
]


@pytest.mark.parametrize(("wait", "how"), DRIVERS)
def test_in_whatever_order_a_controller_answers_nothing_is_held_by_nobody(wait: Any, how: Any) -> None:
    for steps in courses(4):
        holder, controller, outcome = played(steps, wait, **how)
        if isinstance(outcome, Exception):
            assert holder.state is not State.HELD, steps
        else:
            assert holder.state is State.HELD, steps
            assert [lease.id for lease in controller.living] == [outcome.id], steps
            assert holder.trusted_for > 0 or not how.get("by_trust"), steps
        controller.steps = []
        carry_out(holder.release(), controller)
        assert controller.living == [], steps


@pytest.mark.parametrize(("wait", "how"), DRIVERS)
def test_what_is_held_is_kept_or_told_to_be_lost_once(wait: Any, how: Any) -> None:
    for steps in courses(4):
        told: list[LeaseHolder] = []
        holder, controller, _ = played((), wait, on_lost=told.append, **how)
        controller.steps = list(steps)
        while holder.loss is None and controller.steps:
            controller.clock.now += holder.due_in
            carry_out(holder.tend(), controller)
        lost = holder.loss is not None
        assert told == [holder] * lost, steps
        assert lost or controller.living, steps
        assert not lost or holder.trusted_for == 0, steps
        controller.steps = []
        carry_out(holder.release(), controller)
        assert controller.living == [], steps


def test_a_lease_that_nobody_may_know_of_is_found_by_its_holder() -> None:
    holder, controller, outcome = played(("lose the answer",), 0.0)
    assert isinstance(outcome, PoolUnavailable)
    assert controller.living
    controller.steps = []
    carry_out(holder.release(), controller)
    assert controller.living == []


def test_who_is_not_wanted_any_longer_leaves_the_queue() -> None:
    left = [3]

    def wanted() -> bool:
        left[0] -= 1
        return left[0] > 0

    holder, controller, outcome = played(("pass",) * 9, None, wanted=wanted)
    assert str(outcome) == "The request was withdrawn."
    assert [lease.state for lease in controller.leases.values()] == ["queued"]
    carry_out(holder.release(), controller)
    assert controller.living == []


def test_a_controller_that_is_away_at_the_end_of_the_wait_is_what_is_told() -> None:
    holder, _, outcome = played(("pass", *("away",) * 200), 20.0)
    assert isinstance(outcome, PoolUnavailable)
    assert holder.trouble == "away"


def test_a_loss_without_a_reason_is_told_by_its_state() -> None:
    told: list[str] = []
    holder, _, lease = played((), 0.0, on_lost=lambda holder: told.append(holder.loss.text))
    holder.renewed(0.0, Renewal((), (Lost(lease.id, "released", ""),)))
    assert told == ["released"]
