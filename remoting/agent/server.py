"""The agent itself: puts the controller's set into force, admits connections, and fences itself.

Its invariant: a worker lives only for a (lease, epoch) that is in force here, or is being killed. Four
things take a grant out of force, and each kills its worker in the same step: a set that does not name it,
its own deadline, a controller that was silent for too long, and another agent under our name.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import math
import os
import socket
from collections.abc import Callable

import gpu_kernels
from gpu_kernels.remoting.agent.clock import clock
from gpu_kernels.remoting.agent.data_port import DataPort, HandOver, PassageTo, SliceFileOf
from gpu_kernels.remoting.agent.floors import FloorsFile
from gpu_kernels.remoting.agent.gpus import Inventory
from gpu_kernels.remoting.agent.grants import ENDED, Grant, Grants
from gpu_kernels.remoting.agent.listeners import CannotListen, open_listener
from gpu_kernels.remoting.agent.marks import Marks, claim_gpus
from gpu_kernels.remoting.agent.outside import gpu_memory, outside_memory, unseen
from gpu_kernels.remoting.agent.overdraft import Overdrafts
from gpu_kernels.remoting.agent.protections import Protection, protections
from gpu_kernels.remoting.agent.reporter import Pool, Reporter, new_boot
from gpu_kernels.remoting.agent.settings import Settings
from gpu_kernels.remoting.agent.slice_file import commits_strictly
from gpu_kernels.remoting.agent.slice_status import status_json
from gpu_kernels.remoting.agent.worker import WorkerGone
from gpu_kernels.remoting.agent.workers import Workers, no_worker
from gpu_kernels.remoting.hello import Hello, Refusal, Status
from gpu_kernels.resources.agents import (
    WORKING,
    AgentReport,
    Assignment,
    LiveLease,
    OutsideMemory,
    Registration,
)

FENCE_EVERY_S = 0.25


class Agent:
    """One GPU server's agent. ``run`` serves until it is cancelled, and leaves no worker behind."""

    def __init__(self, settings: Settings, inventory: Inventory, pool: Pool, log: logging.Logger) -> None:
        """Takes the state folder and the addresses. Raises ``CannotListen``, ``OSError`` or ``ValueError``
        where it cannot."""
        self._settings = settings
        self._inventory = inventory
        self._log = log
        settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = self._take_folder()
        self._claims = claim_gpus(inventory)
        self._floors = FloorsFile(settings.state)
        floors, epoch = self._floors.load()
        self._kept_epoch = epoch
        self._keeping = asyncio.Lock()
        self._grants = Grants(
            inventory.by_uuid(),
            floors,
            highest_epoch=epoch,
            fences_after=settings.fences_after_s or math.inf,
        )
        self._marks = Marks(settings.state)
        self._workers = Workers(
            inventory,
            settings.workers,
            log,
            self._worker_changed,
            self._grants.served_until,
            self._marks,
        )
        self._outside: tuple[OutsideMemory, ...] = ()
        self._overdrafts = Overdrafts()
        self._told_unseen = False
        opened = [open_listener(address, settings.state) for address in settings.listen]
        self._listeners = [listener for listener, _ in opened]
        self.address = settings.advertised or opened[0][1]
        self._reporter = Reporter(
            pool,
            self,
            name=settings.name,
            registration=Registration(
                boot_id=new_boot(),
                address=self.address,
                version=gpu_kernels.__version__,
                gpus=tuple(gpu.offered() for gpu in inventory.gpus),
                fences_after=settings.fences_after_s,
            ),
            every_s=settings.report_every_s,
            log=log,
        )

    def protections(self) -> list[Protection]:
        """What holds a worker that somebody has taken over, and what does not."""
        return protections(self._workers.cells, self._settings.workers)

    def own_memory_text(self) -> str:
        """What workers may take of this machine's memory, for the log at the agent's start."""
        return self._workers.own_memory.text()

    async def run(self) -> None:
        """Serve until cancelled; then kill every worker, tell the controller, and return."""
        port = DataPort(self._settings.limits, self._serve, self._log)
        for listener in self._listeners:
            port.listen(listener)
        self._log.info("serving %s", self.address)
        tasks = [
            asyncio.ensure_future(task) for task in (self._report(), self._fence(), self._look_at_memory())
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            await self._stop(port, tasks)

    async def _stop(self, port: DataPort, tasks: list[asyncio.Task[None]]) -> None:
        await port.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if not await self._workers.kill_all(self._settings.stop_within_s):
            self._log.error("some workers do not die; their slices stay taken")
        await self._reporter.last_report(self._settings.stop_within_s / 2)
        for address in self._settings.listen:
            if address.startswith("unix://"):
                with contextlib.suppress(OSError):
                    os.unlink(address.removeprefix("unix://"))
        for claim in self._claims:
            claim.close()
        os.close(self._lock)

    # What the reporter asks and tells (``reporter.Server``).

    def report(self, boot_id: str) -> AgentReport:
        """What lives is named, dying or not. So the newest set counts as carried out as soon as it is in
        force: what it ended and is not named is dead, and what is named is not freed."""
        leases = tuple(
            LiveLease(
                id=worker.grant.lease_id,
                epoch=worker.grant.epoch,
                state="draining" if worker.dying else WORKING,
                used_mib=worker.usage.used_mib,
                peak_mib=worker.usage.peak_mib,
                sessions=worker.usage.sessions,
                launches=worker.usage.launches,
            )
            for worker in self._workers.alive()
        )
        grants = self._grants
        return AgentReport(
            boot_id=boot_id,
            target_seq=grants.applied_seq,
            incarnation=grants.incarnation,
            full=grants.in_doubt,
            epoch=self._kept_epoch,
            leases=leases,
            outside=self._outside,
        )

    async def take(self, assignment: Assignment, anchored_at: float, answered_at: float) -> None:
        change = self._grants.apply(assignment, anchored_at, answered_at)
        if self._grants.in_doubt:
            self._reporter.wake()
        if change is None:
            self._log.warning("a set of leases came that is older or counted otherwise; it is ignored")
            return
        self._kill_unserved()
        self._workers.tell_times()
        for why in change.refused:
            self._log.error("the controller asks for what cannot be served: %s", why)
        if change.floors_raised:
            await self._keep_floors()

    async def _keep_floors(self) -> None:
        """No worker is started for a new epoch while this runs (``_may_start``)."""
        floors, epoch = dict(self._grants.floors), self._grants.highest_epoch
        async with self._keeping:
            try:
                await asyncio.to_thread(self._floors.keep, floors, epoch)
            except OSError as error:
                self._log.error("cannot keep the epochs on disk (they hold until a restart): %s", error)
            else:
                self._kept_epoch = epoch

    def registered_anew(self) -> None:
        self._grants.forget_sequence()

    def replaced(self) -> None:
        self._grants.drop_all()
        self._kill_unserved()

    def shortest_life_s(self) -> float | None:
        deadline = self._grants.next_deadline()
        return None if deadline is None else deadline - clock()

    # What the data port asks.

    async def _serve(
        self, hello: Hello, proved: Callable[[str], None]
    ) -> str | SliceFileOf | PassageTo | HandOver:
        try:
            grant = self._grants.admit(hello, clock())
        except Refusal as refusal:
            if refusal.status != Status.UNKNOWN_LEASE:
                raise
            # It may be newer than what we have heard: ask once before refusing.
            await self._reporter.fresh_round(self._settings.limits.lookup_s, lambda: self._admits(hello))
            grant = self._grants.admit(hello, clock())
        proved(grant.lease_id)
        if hello.is_status_query:
            return status_json(grant, self._inventory, self._workers.of(grant.key), clock())
        await self._have_worker(grant)
        if hello.wants_slice_file:
            worker = self._workers.of(grant.key)
            return SliceFileOf(worker.slice_file if worker else None)

        async def hand_over(zeroed: bytes, connection: socket.socket) -> None:
            try:
                await self._workers.hand_over(grant, zeroed, connection)
            except WorkerGone:
                await self._have_worker(grant)
                await self._workers.hand_over(grant, zeroed, connection)

        return PassageTo(lambda: self._may_pass(grant), hand_over) if hello.wants_passage else hand_over

    def _may_pass(self, grant: Grant) -> bool:
        worker = self._workers.of(grant.key)
        with contextlib.suppress(OSError):
            return worker is not None and not commits_strictly() and worker.may_have_passage()
        return False

    def _admits(self, hello: Hello) -> bool:
        try:
            self._grants.admit(hello, clock())
        except Refusal:
            return False
        return True

    async def _have_worker(self, grant: Grant) -> None:
        try:
            async with asyncio.timeout(self._settings.limits.worker_s):
                await self._may_start(grant)
                # The set may have changed while a predecessor died.
                if not self._grants.serves(grant.key, clock()):
                    raise Refusal(Status.LEASE_ENDED, ENDED)
                await self._workers.ready(self._workers.ensure(grant))
        except TimeoutError:
            raise no_worker(grant, "it is not ready, or its predecessor does not end") from None

    async def _may_start(self, grant: Grant) -> None:
        """Wait until the grant may get a worker: its epoch is on disk, and no other worker is of its lease.
        Nothing is waited for between the last look at both and the return."""
        while True:
            await self._workers.room_for(grant)
            if grant.epoch <= self._kept_epoch or not self._keeping.locked():
                return
            async with self._keeping:
                pass

    # What the agent does by itself.

    def _worker_changed(self) -> None:
        self._reporter.wake()

    def _kill_unserved(self) -> None:
        now = clock()
        self._workers.kill_unserved(lambda key: self._grants.serves(key, now))

    async def _report(self) -> None:
        await self._workers.cells.none_left()
        await self._marks.none_left(self._log)
        await self._reporter.run()

    async def _fence(self) -> None:
        """Kill the workers of grants that lapse, whether or not the controller can be reached."""
        while True:
            await asyncio.sleep(FENCE_EVERY_S)
            served = any(not worker.dying for worker in self._workers.alive())
            if served and self._grants.trusted_until <= clock():
                self._log.error(
                    "no report was acknowledged for %.0f s: everything is stopped until one is",
                    self._settings.fences_after_s,
                )
            self._kill_unserved()

    async def _look_at_memory(self) -> None:
        """Look now and then what processes hold of the GPUs' memory: our workers, and others beside them."""
        nvidia = {gpu.uuid for gpu in self._inventory.gpus if gpu.device == "nvidia"}
        while True:
            workers = [
                (worker.pid, worker.grant) for worker in self._workers.alive() if worker.spoke.is_set()
            ]
            ours = {worker.pid for worker in self._workers.alive()}
            memory = await asyncio.to_thread(gpu_memory, self._inventory)
            hidden = unseen(memory.held, workers, nvidia)
            self._outside = outside_memory(memory, ours, hidden, self._workers.promised_mib())
            for overdraft in self._overdrafts.look(memory.held, workers):
                self._log.error("%s; the %dth since the start", overdraft.log, self._overdrafts.ended)
                self._workers.end_for(overdraft.pid, overdraft.text)
            if hidden and not self._told_unseen:
                self._told_unseen = True
                self._log.warning(
                    "NVML does not show what this server's workers hold (in a container it may not): they "
                    "are bounded by their own accounts, and the GPU as a whole is compared with all slices"
                )
            await asyncio.sleep(self._settings.report_every_s)

    def _take_folder(self) -> int:
        """The state folder's lock: two agents in one folder would undo each other's fences."""
        path = self._settings.state / "lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise CannotListen(
                f"another agent uses the state folder {self._settings.state}; give this one its own"
            ) from None
        return descriptor
