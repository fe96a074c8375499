"""Sees, from inside a process, what holds its event loop up; writes it to a file as it happens.

Each callback of the loop is timed: from its begin to its end by the clock, and less the time in which the
thread was ready to run but had no processor (``schedstat`` of the kernel), which on a machine that others use
too is most of it. That is the callback's *own* time. A callback that lasts long is interrupted by an alarm
again and again, and its stack noted with the own time since the last look, so that one learns whose it is.

An alarm, and no thread beside: a thread would need the interpreter's lock to look, and whoever holds that and
has no processor holds the loop up.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

FILE_VARIABLE = "LAB_LOAD_LOOP_FILE"
BEAT_S = 0.01
"""How often the loop is asked how late it is."""

ALARM_S = (0.02, 0.005)
"""When a callback is looked at first, and how often then."""

LONG_S = 0.05
"""A callback that lasts longer, by the clock, is written down."""

TELL_S = 2.0
MOST_FRAMES = 60
MOST_STACKS = 6
REPOSITORY = Path(__file__).resolve().parents[2]
OURS = f"{REPOSITORY / 'gpu_kernels'}/"
NOTICED_S = 0.1
"""Who asks in a moment in which the loop does not come back for longer than this has to wait."""


class LoopWatch:
    """The event loop of the main thread, watched."""

    def __init__(self, kind: str, file: TextIO) -> None:
        self._kind = kind
        self._file = file
        self._loop: Any = None
        self._thread = threading.get_ident()
        self._schedule = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
        self._looked = 0.0
        self._stacks: Counter[tuple[str, ...]] = Counter()
        self._collecting = 0.0
        self._collected = 0.0
        self._long: list[dict[str, Any]] = []
        self._told = 0.0
        self._callbacks = 0
        self._busy = 0.0
        self._since = time.perf_counter()
        self._behind = 0.0
        self._latest = 0.0

    def start(self) -> None:
        run = asyncio.Handle._run

        def watched(handle: Any) -> None:
            if threading.get_ident() != self._thread:
                run(handle)
                return
            if handle._loop is not self._loop:
                self._loop = handle._loop
                self._beat(time.perf_counter())
            self._timed(run, handle)

        asyncio.Handle._run = watched  # type: ignore[method-assign]
        signal.signal(signal.SIGALRM, self._look)
        gc.callbacks.append(self._collects)

    def _timed(self, run: Any, handle: Any) -> None:
        self._collected = 0.0
        cpu, begun = time.thread_time(), time.perf_counter()
        own = self._looked = self._own_clock()
        signal.setitimer(signal.ITIMER_REAL, *ALARM_S)
        try:
            run(handle)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            wall = time.perf_counter() - begun
            self._callbacks += 1
            self._busy += wall
            if wall > LONG_S:
                # This clock is read after that of the wall: what passes in between is nobody's.
                own = min(self._own_clock() - own, wall)
                self._keep(handle, wall, own, time.thread_time() - cpu)
            if self._stacks:
                self._stacks = Counter()

    def _own_clock(self) -> float:
        """Seconds, without those in which this thread was ready to run and did not. The two are of one
        moment: where the thread was kept waiting between looking at them, it looks again.
        """
        waited = os.pread(self._schedule, 100, 0).split()[1]
        while True:
            now, before = time.perf_counter(), waited
            waited = os.pread(self._schedule, 100, 0).split()[1]
            if waited == before:
                return now - int(waited) / 1e9

    def _look(self, number: int, frame: FrameType | None) -> None:
        """Called in the main thread, between two steps of the interpreter."""
        now = self._own_clock()
        self._stacks[stack_of(frame)] += now - self._looked  # type: ignore[assignment]
        self._looked = now

    def _keep(self, handle: Any, wall: float, own: float, cpu: float) -> None:
        ours = {stack: seconds for stack, seconds in self._stacks.items() if of_ours(stack)}
        shown = sorted(self._stacks.items(), key=lambda each: (each[0] not in ours, -each[1]))
        self._long.append(
            {
                "block": named(handle),
                "at": time.time(),
                "wall": wall,
                "own": own,
                "cpu": cpu,
                "gc": self._collected,
                "ours": min(sum(ours.values()), own),
                "seen": sum(self._stacks.values()),
                "stacks": shown[:MOST_STACKS],
            }
        )

    def _collects(self, phase: str, info: dict[str, int]) -> None:
        if threading.get_ident() != self._thread:
            return
        if phase == "start":
            self._collecting = self._own_clock()
        else:
            self._collected += self._own_clock() - self._collecting

    def _beat(self, due: float) -> None:
        """Asks the loop to come back soon, and counts how late it does."""
        now = time.perf_counter()
        late = max(0.0, now - due)
        self._latest = max(self._latest, late)
        self._behind += max(0.0, late - NOTICED_S)
        if now - self._told > TELL_S:
            self._told = now
            self._tell()
        self._loop.call_later(BEAT_S, self._beat, time.perf_counter() + BEAT_S)

    def _tell(self) -> None:
        blocks, self._long = self._long, []
        summary = {
            "kind": self._kind,
            "pid": os.getpid(),
            "callbacks": self._callbacks,
            "busy": self._busy,
            "lived": time.perf_counter() - self._since,
            "behind": self._behind,
            "latest": self._latest,
        }
        self._file.write("".join(json.dumps(line) + "\n" for line in (*blocks, summary)))
        self._file.flush()


def named(handle: Any) -> str:
    """What the loop called: the coroutine of a task, or a function."""
    task = getattr(handle._callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        coroutine: Any = task.get_coro()
        return str(getattr(coroutine, "__qualname__", coroutine))
    return str(getattr(handle._callback, "__qualname__", handle._callback))


def of_ours(stack: Sequence[str]) -> bool:
    """Whether a function of this project is on the stack, be it that it called something else."""
    return any(frame.startswith(OURS) for frame in stack)


def stack_of(frame: FrameType | None) -> tuple[str, ...]:
    """``file:line function`` from the callback in to where it is now."""
    found: list[str] = []
    while frame is not None and frame.f_code.co_filename != __file__ and len(found) < MOST_FRAMES:
        found.append(f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return tuple(reversed(found))


def watch(kind: str, file: Path) -> None:
    """Watch the event loop of the main thread, which calls this, and write what is seen to ``file``."""
    file.parent.mkdir(exist_ok=True)
    LoopWatch(kind, file.open("a")).start()
