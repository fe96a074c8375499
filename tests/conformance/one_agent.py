"""A real agent with its workers in a thread beside the run, and a controller that grants what it asks."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from gpu_kernels.client import AsyncPoolClient, Lease, LeaseAgent, Slot
from gpu_kernels.remoting.agent.gpus import Inventory, nvidia_driver
from gpu_kernels.remoting.agent.server import Agent
from gpu_kernels.remoting.agent.settings import Settings, WorkerSettings
from gpu_kernels.remoting.paths import native_build
from tests.agent.fake_controller import FakeController, Granted

T = TypeVar("T")

LONGER_THAN_A_RUN = 86400.0


class OneAgent:
    """A context manager. ``folder`` has a short path: the data port's socket is in it."""

    def __init__(self, folder: Path, inventory: Inventory, threads: int | None = None) -> None:
        native = native_build()
        self.inventory = inventory
        self._settings = Settings(
            name="gpu-server-1",
            state=folder,
            listen=(f"unix://{folder / 'port'}",),
            advertised=None,
            workers=WorkerSettings(native, native.worker, nvidia_driver(), software_threads=threads),
        )
        self._numbers = itertools.count(1)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="agent")

    def __enter__(self) -> OneAgent:
        self._thread.start()
        self._wait(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._wait(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @contextmanager
    def lease(self, mib: int, thousandths: int, count: int = 1) -> Iterator[Lease]:
        """A lease of so much of each of ``count`` GPUs: a worker of its own, as long as it lasts."""
        name = f"L-{next(self._numbers)}"
        granted = self._wait(self._grant(name, mib, thousandths, count))
        try:
            yield self._told(granted)
        finally:
            self._wait(self._end(name))

    async def _grant(self, name: str, mib: int, thousandths: int, count: int) -> Granted:
        granted = await self._controller.grant(
            name, mib=mib, ttl=LONGER_THAN_A_RUN, thousandths=thousandths, count=count
        )
        await self._controller.carried_out()
        return granted

    async def _end(self, name: str) -> None:
        await self._controller.carried_out(await self._controller.end(name))

    async def _start(self) -> None:
        self._controller = await FakeController().__aenter__()
        self._client = AsyncPoolClient(self._controller.url, "token", timeout=20.0)
        log = logging.getLogger("tests.conformance")
        log.addHandler(logging.NullHandler())  # the faults that tests make are no news
        self._agent = Agent(self._settings, self.inventory, self._client, log)
        self._running = asyncio.ensure_future(self._agent.run())

    async def _stop(self) -> None:
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running
        await self._client.aclose()
        await self._controller.__aexit__()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def _told(self, granted: Granted) -> Lease:
        """The lease as its owner is told of it."""
        return Lease(
            id=granted.id,
            state="active",
            epoch=granted.epoch,
            user="student",
            course="course",
            size="1 GPU",
            gpu_class=None,
            device=self.inventory.gpus[0].device,
            slot=Slot("", ""),
            holder="",
            slices=(),
            agent=LeaseAgent(self._settings.name, self._agent.address),
            secret=granted.secret.hex(),
            position=None,
            expires_in=None,
            ttl=LONGER_THAN_A_RUN,
            reason=None,
            created_at="",
            labels={},
        )
