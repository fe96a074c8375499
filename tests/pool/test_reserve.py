"""A lease for as long as a block runs: got, kept, lost and given back, in threads and in asyncio."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from gpu_kernels.client import AsyncPoolClient, Lease, Lost, PoolClient, Renewal, Renewed, Slot
from gpu_kernels.client.calls import Request
from gpu_kernels.client.lease_holder import LeaseHolder
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.client.reservation import each_position
from gpu_kernels.errors import CourseLimit, LeaseLost, PoolFull, PoolUnavailable
from gpu_kernels.resources.base import reader
from tests.pool.controller import Agent, ThreadedController, reserve, token

GRANTED: dict[str, Any] = {
    "id": "f00", "state": "reserved", "epoch": 3, "user": "ada", "course": "ml101", "size": "0.1 V100",
    "gpu_class": "V100", "device": "software", "slot": {"server": "", "path": "a"}, "holder": "h",
    "slices": [], "agent": None, "secret": None, "position": None, "expires_in": 60.0, "ttl": 60.0,
    "reason": None, "created_at": "", "labels": {},
}  # fmt: skip
lease_of = reader(Lease)


class Played:
    """A holder whose requests are answered by the test, on a clock of the test's."""

    def __init__(self, **lease: Any) -> None:
        self.now = 1000.0
        self.losses: list[str] = []
        self.positions: list[int | None] = []
        self.holder = LeaseHolder(
            LeaseRequest.of_its_own("test", "0.1 V100", 30.0, slot=Slot("", "a")),
            by_trust=True,
            on_moved=each_position(lambda lease: self.positions.append(lease.position)),
            on_lost=lambda holder: self.losses.append(holder.loss.reason),
            clock=lambda: self.now,
        )

    def play(self, script: Any, *answers: Any) -> tuple[list[Request[Any]], Any]:
        """What the script asked, and its result; an answer that is an exception is raised in it."""
        asked, left = [], list(answers)
        try:
            step = next(script)
            while True:
                asked.append(step)
                answer = left.pop(0)
                self.now += 2.0  # an answer takes its time
                step = script.throw(answer) if isinstance(answer, Exception) else script.send(answer)
        except StopIteration as done:
            assert not left
            return asked, done.value

    def got(self) -> LeaseHolder:
        self.play(self.holder.acquire(), lease_of(GRANTED))
        return self.holder


def test_trust_counts_from_the_start_of_the_attempt() -> None:
    played = Played()
    holder = played.got()
    assert holder.trusted_for == 58.0
    played.now = 1021.0
    played.play(holder.tend(), Renewal((Renewed("f00", 60.0),), ()))
    assert holder.trusted_until == 1021.0 + 60.0


def test_renewals_are_due_each_third_of_a_life_and_more_often_after_a_failure() -> None:
    played = Played()
    holder = played.got()
    assert holder.due_in == 18.0
    played.now += 18.0
    _, lives = played.play(holder.tend(), PoolUnavailable("away"))
    assert lives
    assert holder.due_in == 3.0


def test_trust_ends_with_its_time_and_is_told_once() -> None:
    played = Played()
    holder = played.got()
    while holder.loss is None:
        played.now += holder.due_in
        if played.now < holder.trusted_until:
            played.play(holder.tend(), PoolUnavailable("away"))
        else:
            played.play(holder.tend())
    assert 1060.0 <= played.now <= 1062.0
    assert len(played.losses) == 1
    assert holder.trusted_for == 0
    with pytest.raises(LeaseLost, match="could not be renewed for 60 s"):
        holder.check()


def test_a_lease_that_was_taken_back_is_lost_at_once() -> None:
    played = Played()
    holder = played.got()
    played.now += 20
    _, lives = played.play(holder.tend(), Renewal({}, (Lost("f00", "quarantined", "Taken back: exam"),)))
    assert not lives
    assert played.losses == ["Taken back: exam"]


def test_an_outage_while_it_waits_in_the_queue_does_not_end_the_wait() -> None:
    played = Played()
    queued = lease_of({**GRANTED, "state": "queued", "position": 2, "expires_in": None})
    first = lease_of({**GRANTED, "state": "queued", "position": 1, "expires_in": None})
    answers = (queued, PoolUnavailable("away"), None, first, lease_of(GRANTED))
    asked, lease = played.play(played.holder.acquire(), *answers)
    assert lease.in_force
    assert played.positions == [2, 1]
    assert [getattr(step, "path", "pause") for step in asked] == [
        "/leases", "/leases/f00", "pause", "/leases/f00", "/leases/f00",
    ]  # fmt: skip


def test_a_lease_that_was_granted_during_a_long_poll_is_renewed_before_it_is_relied_upon() -> None:
    played = Played()
    queued = lease_of({**GRANTED, "state": "queued", "position": 1, "expires_in": None})
    script = played.holder.acquire()
    next(script)
    script.send(queued)
    played.now += 25.0
    script.send(lease_of({**GRANTED, "ttl": 10.0, "expires_in": 9.0}))
    assert played.holder.trusted_for == 0
    with pytest.raises(StopIteration):
        script.send(Renewal((Renewed("f00", 10.0),), ()))
    assert played.holder.trusted_for == 10.0


@pytest.fixture
def ada(controller: ThreadedController, agent: Agent) -> PoolClient:
    return controller.client("ada")


@pytest.fixture
def async_ada(controller: ThreadedController, agent: Agent) -> AsyncPoolClient:
    return AsyncPoolClient(controller.url, token("ada"))


TTL = 6.0
"""Though two were enough: a machine that stands still a while must not cost the lease."""


def states(client: PoolClient) -> list[str]:
    return [lease.state for lease in client.list()]


class TestInThreads:
    def test_it_is_there_in_the_block_and_given_back_after_it(self, ada: PoolClient) -> None:
        with ada.reserve("0.1 V100", labels={"why": "test"}) as lease:
            assert states(ada) == ["reserved"]
            assert 0 < lease.trusted_for <= 60
            assert lease.lease.labels == {"why": "test"}
            lease.check()
        assert states(ada) == ["draining"]

    def test_it_is_given_back_when_the_block_fails(self, ada: PoolClient) -> None:
        with pytest.raises(ZeroDivisionError), ada.reserve("0.1 V100"):
            raise ZeroDivisionError
        assert states(ada) == ["draining"]

    def test_a_refusal_is_raised_and_nothing_is_held(self, ada: PoolClient) -> None:
        with pytest.raises(CourseLimit), ada.reserve("0.5 V100"):
            raise AssertionError("not reached")
        assert states(ada) == []

    def test_it_waits_in_the_queue_and_tells_its_position(
        self, controller: ThreadedController, ada: PoolClient, agent: Agent
    ) -> None:
        eve = controller.client("eve")
        whole = reserve(eve, size="1 V100")
        positions: list[int | None] = []

        def make_room(lease: Lease) -> None:
            positions.append(lease.position)
            eve.release(whole.id, whole.holder)
            agent.carry_out()

        with ada.reserve("0.1 V100", wait=30, on_position=make_room) as lease:
            assert lease.lease.in_force
        assert positions == [1]

    def test_a_time_that_is_over_leaves_nothing_in_the_queue(
        self, controller: ThreadedController, ada: PoolClient
    ) -> None:
        reserve(controller.client("eve"), size="1 V100")
        with pytest.raises(PoolFull, match=r"No slice of 0\.1 V100"), ada.reserve("0.1 V100", wait=0.2):
            raise AssertionError("not reached")
        assert states(ada) == []

    def test_a_lease_that_is_taken_back_is_told(self, tmp_path: Path) -> None:
        with ThreadedController(tmp_path / "state", lease_ttl=TTL) as controller:
            Agent(controller.client("gpu-server")).register()
            told, reasons = threading.Event(), []
            ada = controller.client("ada")
            with ada.reserve("0.1 V100", on_lost=lambda why: (reasons.append(why), told.set())) as lease:
                controller.client("root").revoke(lease.id, "exam")
                assert told.wait(30)
                assert lease.trusted_for == 0
                with pytest.raises(LeaseLost, match="Taken back: exam"):
                    lease.check()
        assert reasons == ["Taken back: exam"]

    def test_it_is_renewed_for_as_long_as_the_block_runs(self, tmp_path: Path) -> None:
        with ThreadedController(tmp_path / "state", lease_ttl=TTL) as controller:
            Agent(controller.client("gpu-server")).register()
            ada = controller.client("ada")
            with ada.reserve("0.1 V100") as lease:
                first = lease._holder.trusted_until
                while lease._holder.trusted_until == first:
                    lease.check()
                    ada.get(lease.id, wait=0.05)
                assert states(ada) == ["reserved"]


class TestInAsyncio:
    async def test_it_is_there_in_the_block_and_given_back_after_it(self, async_ada: AsyncPoolClient) -> None:
        async with async_ada, async_ada.reserve("0.1 V100") as lease:
            assert [seen.id for seen in await async_ada.list()] == [lease.id]
        async with async_ada:
            assert [seen.state for seen in await async_ada.list()] == ["draining"]

    async def test_it_is_given_back_when_the_block_is_cancelled(self, async_ada: AsyncPoolClient) -> None:
        inside = asyncio.Event()

        async def hold() -> None:
            async with async_ada.reserve("0.1 V100"):
                inside.set()
                await asyncio.Event().wait()

        async with async_ada:
            holding = asyncio.create_task(hold())
            await inside.wait()
            holding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await holding
            assert [seen.state for seen in await async_ada.list()] == ["draining"]

    async def test_one_that_is_cancelled_in_the_queue_leaves_it(
        self, controller: ThreadedController, async_ada: AsyncPoolClient
    ) -> None:
        reserve(controller.client("eve"), size="1 V100")
        queued = asyncio.Event()

        async def hold() -> None:
            async with async_ada.reserve("0.1 V100", wait=60, on_position=lambda lease: queued.set()):
                raise AssertionError("not reached")

        async with async_ada:
            holding = asyncio.create_task(hold())
            await queued.wait()
            holding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await holding
            assert await async_ada.list() == []

    async def test_a_loss_ends_the_block(self, tmp_path: Path) -> None:
        with ThreadedController(tmp_path / "state", lease_ttl=TTL) as controller:
            Agent(controller.client("gpu-server")).register()
            root = controller.client("root")

            async def work(pool: AsyncPoolClient) -> None:
                async with pool.reserve("0.1 V100") as lease:
                    await asyncio.to_thread(root.revoke, lease.id, "exam")
                    await asyncio.Event().wait()

            async with AsyncPoolClient(controller.url, token("ada")) as ada:
                with pytest.raises(LeaseLost, match="Taken back: exam"):
                    await work(ada)
