"""Processor time of a lab's processes by what they are, and the memory that all took."""

from __future__ import annotations

import os
import threading
from collections import defaultdict

import psutil

from gpu_kernels.hub_config.lab.settings import MARKER_VARIABLE

LOOK_S = 1.0
KINDS = (
    ("kernels", "ipykernel_launcher"),
    ("single-user servers", "gpu_kernels.hub_config.singleuser"),
    ("workers", "gpu-worker"),
    ("controller", "gpu_kernels.pool"),
    ("lab pages", "gpu_kernels.hub_config.pages"),
    ("agent", "gpu_kernels.remoting.agent"),
    ("proxy", "configurable-http-proxy"),
    ("hub", "jupyterhub"),
)
STUDENTS = "the students (this program)"


class Shares:
    """Looks once a second, in a thread: what a process used in its last second is not seen."""

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._seconds: dict[tuple[int, float], tuple[str, float]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_again_and_again, name="shares", daemon=True)
        self._free = psutil.virtual_memory().available
        self.most_memory = 0
        """Bytes that were taken at once, at most, beyond what was taken at the start."""

    def __enter__(self) -> Shares:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def by_kind(self) -> dict[str, float]:
        """Seconds of processor time, the most first."""
        sums: dict[str, float] = defaultdict(float)
        for kind, seconds in self._seconds.values():
            sums[kind] += seconds
        own = os.times()
        sums[STUDENTS] = own.user + own.system
        return dict(sorted(sums.items(), key=lambda each: -each[1]))

    def _look_again_and_again(self) -> None:
        while not self._over.wait(LOOK_S):
            self.look()

    def look(self) -> None:
        """Notice what the lab's processes have used until now, and the memory that is taken now."""
        self.most_memory = max(self.most_memory, self._free - psutil.virtual_memory().available)
        for pid in psutil.pids():
            try:
                self._count(psutil.Process(pid))
            except psutil.Error:
                continue  # it has ended since, or is not ours to ask

    def _count(self, process: psutil.Process) -> None:
        key = (process.pid, process.create_time())
        # What a process is by its environment and its name can change while it starts: between fork and exec
        # it looks like its parent, and in the middle of exec it has no environment at all.
        if key not in self._seconds and not self._is_of_the_lab(process):
            return
        times = process.cpu_times()
        command = process.cmdline()  # one that has ended has none
        kind = kind_of(command) if command else self._seconds.get(key, ("others", 0.0))[0]
        self._seconds[key] = kind, times.user + times.system

    def _is_of_the_lab(self, process: psutil.Process) -> bool:
        return process.pid != os.getpid() and process.environ().get(MARKER_VARIABLE) == self._marker


def kind_of(command: list[str]) -> str:
    line = " ".join(command)
    if "gpu_kernels.hub_config.lab." in line:
        return "others"
    return next((kind for kind, mark in KINDS if mark in line), "others")
