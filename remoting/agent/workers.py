"""All workers: at most one that lives and takes connections for each grant, and those that are dying.

A worker is in ``alive()`` from before its process exists until nothing of it lives, so the inventory that
the controller gets never leaves out a process that may still use a slice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections import OrderedDict
from collections.abc import Callable
from subprocess import SubprocessError

from gpu_kernels.remoting.agent.cells import Cell, Cells
from gpu_kernels.remoting.agent.clock import clock
from gpu_kernels.remoting.agent.contexts import smallest_slice_mib
from gpu_kernels.remoting.agent.gpus import Inventory
from gpu_kernels.remoting.agent.grants import Grant
from gpu_kernels.remoting.agent.marks import Marks
from gpu_kernels.remoting.agent.own_memory import own_memory
from gpu_kernels.remoting.agent.settings import WorkerSettings
from gpu_kernels.remoting.agent.slice_file import SliceFile, slice_file
from gpu_kernels.remoting.agent.worker import Worker, WorkerGone
from gpu_kernels.remoting.agent.worker_command import command, worker_environment
from gpu_kernels.remoting.environment import SOFTWARE
from gpu_kernels.remoting.hello import Refusal, Status
from gpu_kernels.units import THOUSANDTHS

NO_WORKER = (
    "The GPU server could not start the program that serves this lease.\n"
    "Try again in a minute; if it stays so, tell the administrator of the GPU servers."
)
ATTACKED = (
    ": the kernel ended it for a system call that no worker makes. Somebody may have taken it over; "
    "'journalctl -k --grep type=1326' names the call"
)
SLOW_DEATH_S = 10.0
BETWEEN_STARTS_S = 0.5
NEWS_OF_DEATH_S = 2.0
MOST_TOLD = 1024


class Workers:
    def __init__(
        self,
        inventory: Inventory,
        settings: WorkerSettings,
        log: logging.Logger,
        on_change: Callable[[], None],
        served_until: Callable[[tuple[str, int]], float],
        marks: Marks,
    ) -> None:
        """Raises ``ValueError`` for settings that cannot work. ``on_change`` is called when a worker has
        started or ended. ``served_until``: when a grant lapses without another word, by ``clock``."""
        self._inventory = inventory
        self._settings = settings
        self._log = log
        self._on_change = on_change
        self._served_until = served_until
        self._marks = marks
        self._alive: set[Worker] = set()
        self._own_mib_of: dict[Worker, int] = {}
        self.own_memory = own_memory(
            settings.machine, len(inventory.gpus), settings.memory_mib, inventory.software_mib
        )
        self._by_key: dict[tuple[str, int], Worker] = {}
        self._started_at: dict[str, float] = {}
        self._ended_for: OrderedDict[str, str] = OrderedDict()
        """By lease: what its next connection is told, once."""
        self.cells = Cells(inventory, settings, log)

    def alive(self) -> list[Worker]:
        return list(self._alive)

    def of(self, key: tuple[str, int]) -> Worker | None:
        """The worker that takes connections for this lease and epoch."""
        worker = self._by_key.get(key)
        return None if worker is None or worker.dying else worker

    async def hand_over(self, grant: Grant, hello: bytes, connection: socket.socket) -> None:
        """Pass an answered connection to the grant's worker. Raises ``WorkerGone``."""
        worker = self.of(grant.key)
        if worker is None:
            raise WorkerGone("it ended before it got the connection")
        try:
            await worker.hand_over(hello, connection)
        except WorkerGone:
            # It may have died just now, and we have not been told yet.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(NEWS_OF_DEATH_S):
                    await worker.ended.wait()
            raise

    async def room_for(self, grant: Grant) -> None:
        """Wait until the grant has a worker, or may get one: no two processes ever serve one lease, what
        lives on a GPU fits on it, and one that keeps dying is not started again at once. Raises ``Refusal``
        (no worker) where the GPU is full of others that go on."""
        while self.of(grant.key) is None:
            if why := self._ended_for.pop(grant.lease_id, None):
                raise Refusal(
                    Status.NO_WORKER, why, f"lease {grant.lease_id} is told why its worker was ended"
                )
            before = [worker for worker in self._alive if worker.grant.lease_id == grant.lease_id]
            before = before or self._in_the_way(grant)
            pause = self._started_at.get(grant.lease_id, 0.0) + BETWEEN_STARTS_S - clock()
            if before:
                await before[0].ended.wait()
            elif pause > 0:
                await asyncio.sleep(pause)
            else:
                return

    def _in_the_way(self, grant: Grant) -> list[Worker]:
        """Dying workers without whose end the grant does not fit on its GPUs. The controller waits for them,
        too; one whose ledger was restored from a backup does not know of them.

        A software GPU that has less to offer than is configured still serves what it had promised before: the
        controller grants nothing more on it until that is free."""
        gpus = self._inventory.by_uuid()
        for part in grant.slices:
            there = [(worker, other) for worker in self._alive for other in worker.grant.slices]
            there = [(worker, other) for worker, other in there if other.gpu == part.gpu]
            mib = part.mib + sum(other.mib for _, other in there)
            thousandths = part.thousandths + sum(other.thousandths for _, other in there)
            gpu = gpus[part.gpu]
            most_mib = gpu.total_mib if gpu.device == SOFTWARE else gpu.allocatable_mib
            if mib > most_mib or thousandths > THOUSANDTHS:
                if dying := [worker for worker, _ in there if worker.dying]:
                    return dying
                raise no_worker(grant, f"GPU {part.gpu} is full: {mib} MiB and {thousandths} thousandths")
        return []

    def ensure(self, grant: Grant) -> Worker:
        """The grant's worker, started if it has none; to be called right after ``room_for``, with no wait
        between. Raises ``Refusal`` (no worker)."""
        self._large_enough(grant)
        return self.of(grant.key) or self._start(grant)

    def _large_enough(self, grant: Grant) -> None:
        """Raises ``Refusal`` (no worker) for a slice that a context alone would fill."""
        gpus = self._inventory.by_uuid()
        for part in grant.slices:
            gpu = gpus[part.gpu]
            least = smallest_slice_mib(gpu.context_mib)
            if part.mib < least:
                text = (
                    f"A slice of {part.mib} MiB is too small on a {gpu.gpu_class}: CUDA takes "
                    f"{gpu.context_mib} MiB of each slice there for itself.\nAsk for {least} MiB or more."
                )
                raise Refusal(Status.NO_WORKER, text, f"lease {grant.lease_id}: {text}")

    async def ready(self, worker: Worker) -> None:
        """Wait until the worker can serve. Raises ``Refusal`` (no worker) if it ends instead."""
        await worker.spoke.wait()
        if worker.ended.is_set():
            raise no_worker(worker.grant, worker.last_fault or f"it ended with status {worker.exit_status}")

    def kill_unserved(self, serves: Callable[[tuple[str, int]], bool]) -> None:
        """Kill what may no longer be served; returns at once."""
        for worker in self.alive():
            if not worker.dying and not serves(worker.grant.key):
                self._log.info("lease %s is over: killing worker %d", worker.grant.lease_id, worker.pid)
                worker.kill()
                asyncio.get_running_loop().call_later(SLOW_DEATH_S, self._complain, worker)

    def promised_mib(self) -> dict[str, int]:
        """By GPU: the slices of all that lives."""
        sums: dict[str, int] = {}
        for worker in self._alive:
            for part in worker.grant.slices:
                sums[part.gpu] = sums.get(part.gpu, 0) + part.mib
        return sums

    def end_for(self, pid: int, why: str) -> None:
        """Kill a worker for what it holds; ``why`` is for the user, who gets it with the next connection."""
        for worker in self.alive():
            if worker.pid == pid and not worker.dying:
                self._ended_for[worker.grant.lease_id] = why
                if len(self._ended_for) > MOST_TOLD:
                    self._ended_for.popitem(last=False)
                worker.kill()

    def tell_times(self) -> None:
        """Tell each worker how long it may live now."""
        for worker in self._alive:
            if not worker.dying:
                worker.live_until(milliseconds(self._served_until(worker.grant.key)))

    async def kill_all(self, within_s: float) -> bool:
        """Kill every worker and wait; whether all are dead."""
        self.kill_unserved(lambda key: False)
        waiting = [asyncio.ensure_future(worker.ended.wait()) for worker in self.alive()]
        if not waiting:
            return True
        _, pending = await asyncio.wait(waiting, timeout=within_s)
        for task in pending:
            task.cancel()
        return not pending

    def _start(self, grant: Grant) -> Worker:
        now = clock()
        self._started_at = {k: at for k, at in self._started_at.items() if at > now - BETWEEN_STARTS_S}
        self._started_at[grant.lease_id] = now
        until = milliseconds(self._served_until(grant.key))
        cell: Cell | None = None
        file: SliceFile | None = None
        try:
            own_mib = self._own_mib(grant)
            file = slice_file(self._software_mib(grant))
            file_fd = None if file is None else file.descriptor
            cell = self.cells.make(own_mib + self._software_mib(grant))
            with self._marks.another() as mark:
                worker = Worker(
                    grant,
                    lambda control_fd: command(
                        grant, self._inventory, control_fd, mark, self._settings, until, own_mib, file_fd
                    ),
                    worker_environment(grant, self._inventory, self._settings),
                    cell,
                    self.cells.confinement(cell),
                    self._log,
                    self._ended,
                    mark,
                    file,
                )
        except (OSError, ValueError, SubprocessError) as error:
            if file is not None:
                file.close()
            if cell is not None:
                self.cells.close(cell)
            raise no_worker(grant, str(error)) from error
        self.cells.started(worker.pid)
        self._alive.add(worker)
        self._own_mib_of[worker] = own_mib
        self._by_key[grant.key] = worker
        self._log.info(
            "worker %d serves lease %s, epoch %d: %s",
            worker.pid,
            grant.lease_id,
            grant.epoch,
            ", ".join(f"{part.mib} MiB of GPU {part.index}" for part in grant.slices),
        )
        self._tell_promised_before(grant)
        self._on_change()
        return worker

    def _tell_promised_before(self, grant: Grant) -> None:
        gpus, promised = self._inventory.by_uuid(), self.promised_mib()
        for uuid in {part.gpu for part in grant.slices}:
            if promised[uuid] > gpus[uuid].allocatable_mib:
                self._log.warning(
                    "slices of GPU %d have %d MiB, and it offers %d: they were leased when it had more, and "
                    "this machine's memory may not be enough for them until they end",
                    *(gpus[uuid].index, promised[uuid], gpus[uuid].allocatable_mib),
                )

    def _own_mib(self, grant: Grant) -> int:
        """What the grant's worker may take for itself. Raises ``ValueError`` where nothing is left."""
        thousandths = sum(part.thousandths for part in grant.slices)
        return self.own_memory.for_another(thousandths, self._own_mib_of.values())

    def _software_mib(self, grant: Grant) -> int:
        """What of the grant's slices is this machine's memory: a software GPU's."""
        gpus = self._inventory.by_uuid()
        return sum(part.mib for part in grant.slices if gpus[part.gpu].device == SOFTWARE)

    def _ended(self, worker: Worker) -> None:
        self.cells.close(worker.cell, worker.pid)
        self._alive.discard(worker)
        self._own_mib_of.pop(worker, None)
        if self._by_key.get(worker.grant.key) is worker:
            del self._by_key[worker.grant.key]
        level = logging.INFO if worker.dying or worker.exit_status == 0 else logging.WARNING
        self._log.log(
            level,
            "worker %d of lease %s ended with status %s%s",
            worker.pid,
            worker.grant.lease_id,
            worker.exit_status,
            ATTACKED if worker.exit_status == -signal.SIGSYS else "",
        )
        self._on_change()

    def _complain(self, worker: Worker) -> None:
        if not worker.ended.is_set():
            self._log.error(
                "worker %d of lease %s does not die; its slices stay taken until it does",
                worker.pid,
                worker.grant.lease_id,
            )


def milliseconds(seconds: float) -> int:
    """A time of ours as a worker is told it; never 0, which would mean "no end"."""
    return max(1, int(seconds * 1000)) if seconds > 0 else 1


def no_worker(grant: Grant, why: str) -> Refusal:
    return Refusal(Status.NO_WORKER, NO_WORKER, f"no worker for lease {grant.lease_id}: {why}")
