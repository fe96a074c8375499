"""What the besieged processes take (memory, descriptors, logs), and how long the agent was silent."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

from benchmarks.siege.rig import ADMIN, Rig
from gpu_kernels.client import PoolClient
from gpu_kernels.errors import PoolError

LOOK_S = 0.5
ADMIN_WAITS_S = 5.0
MIB = 1 << 20
MACHINE = "machine"


def peak_mib(pid: int) -> float:
    """The most memory that the process has had so far, in MiB; 0 where it is gone."""
    with contextlib.suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) / 1024 if found else 0.0
    return 0.0


def soft_descriptors(pid: int) -> int:
    found = re.search(r"Max open files\s+(\d+)", Path(f"/proc/{pid}/limits").read_text())
    assert found is not None
    return int(found[1])


@dataclass
class Worker:
    """One worker: its peak, and what its command line lets it have (its own memory, and its slice, which a
    software GPU keeps in the same process)."""

    peak: float
    own_limit: int
    slice_mib: int


def limits_of(command: list[str]) -> tuple[int, int]:
    """Own memory and slice of a worker in MiB, from its command line."""

    def after(option: str) -> int:
        return sum(map(int, command[command.index(option) + 1].split(",")))

    return after("--host-memory-mib"), after("--memory-mib")


@dataclass
class Watch:
    """Looks twice a second, in a thread. ``of_students``: the workers that were there before the attacks."""

    rig: Rig
    peaks: dict[str, float] = field(default_factory=dict)
    descriptors: dict[str, int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    workers: dict[int, Worker] = field(default_factory=dict)
    of_students: frozenset[int] = frozenset()
    silent_for: float = 0.0
    logged: int = 0
    """Bytes that all of them wrote into their logs meanwhile."""
    unanswered: int = 0
    """Questions of an admin that were not answered in time."""

    seconds: float = 0.0
    """How long it watched; ``busy``: processor time meanwhile, of the machine and by process."""
    busy: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._look, self._ask)]
        self._before = self._log_bytes()

    def __enter__(self) -> Self:
        self._look_once()
        self.of_students = frozenset(self.workers)
        self._began, self._busy_before = time.monotonic(), self._busy()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._look_once()
        self.logged = self._log_bytes() - self._before
        self.seconds = time.monotonic() - self._began
        self.busy = {name: now - self._busy_before[name] for name, now in self._busy().items()}

    def _busy(self) -> dict[str, float]:
        """Seconds of processor time so far."""
        machine = psutil.cpu_times()
        found = {MACHINE: sum(machine) - machine.idle - machine.iowait - machine.guest - machine.guest_nice}
        for name, process in self.rig.processes.items():
            times = psutil.Process(process.pid).cpu_times()
            found[name] = times.user + times.system
        return found

    def largest(self, *, of_students: bool) -> Worker | None:
        """The worker that has had the most memory: of the students, or of all others."""
        some = [worker for pid, worker in self.workers.items() if (pid in self.of_students) == of_students]
        return max(some, key=lambda worker: worker.peak, default=None)

    def _log_bytes(self) -> int:
        return sum(self.rig.log(name).stat().st_size for name in self.rig.processes)

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            self._look_once()

    def _look_once(self) -> None:
        for name, process in self.rig.processes.items():
            self.peaks[name] = max(self.peaks.get(name, 0.0), peak_mib(process.pid))
            with contextlib.suppress(OSError):
                open_now = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
                self.descriptors[name] = max(self.descriptors.get(name, 0), open_now)
                self.limits[name] = soft_descriptors(process.pid)
        for child in psutil.Process(self.rig.processes["agent"].pid).children():
            with contextlib.suppress(psutil.Error, ValueError, IndexError):
                own, slice_mib = limits_of(child.cmdline())
                known = self.workers.setdefault(child.pid, Worker(0.0, own, slice_mib))
                known.peak = max(known.peak, peak_mib(child.pid))

    def _ask(self) -> None:
        with PoolClient(self.rig.url, ADMIN, timeout=ADMIN_WAITS_S) as admin:
            while not self._over.wait(1.0):
                try:
                    self.silent_for = max([self.silent_for, *(a.silent_for for a in admin.agents())])
                except PoolError:
                    self.unanswered += 1
