"""A real worker whose driver somebody has taken over, and what its attacks came to."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.forwarding.minimal_agent import MinimalAgent
from tests.forwarding.test_hostile_frames import LIBRARY, LOAD, RawLane, handle
from tests.native_build import Build


class TakenOver:
    """A worker of ``MinimalAgent`` with ``tests/forwarding/native/hostile_driver.cc`` as its driver."""

    def __init__(self, agent: MinimalAgent, results: Path) -> None:
        self.agent = agent
        self.results = results
        assert agent.worker is not None
        self.process = agent.worker

    def attempt(self, attack: str) -> str:
        """Make an attack from inside the worker, once it serves: "done", the name of the error, or the signal
        that ended the worker."""
        before = self.results.read_text()
        image = attack.encode() + b"\n"
        digest = hashlib.blake2b(image, digest_size=32).digest()
        request = struct.pack("<Q32sQIIII", handle(LIBRARY, 0), digest, len(image), 1, 0, 0, 0) + image
        try:
            RawLane(self.agent).ask(LOAD, request)
        except ConnectionError:
            return self.end()
        _, _, result = self.results.read_text().removeprefix(before).strip().rpartition(" ")
        return "done" if int(result) >= 0 else errno.errorcode[-int(result)]

    def end(self) -> str:
        """The worker's end, or what it has become."""
        try:
            status = self.process.wait(5 if is_program(self.process.pid, "sleep") else 60)
        except subprocess.TimeoutExpired:
            return "it is another program"
        return signal.Signals(-status).name if status < 0 else f"ended with {status}"


def is_program(pid: int, name: str) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip() == name
    return False


@contextlib.contextmanager
def taken_over(folder: Path, native: Build, *options: str) -> Iterator[TakenOver]:
    results = folder / "results"
    results.touch()
    environment = {"HOSTILE_DRIVER_RESULTS": str(results), "TMPDIR": str(folder)}
    with MinimalAgent(
        folder, native.worker, native.hostile_driver, environment=environment, options=options
    ) as agent:
        yield TakenOver(agent, results)
        for child in children_of(os.getpid()) + children_of(agent.worker.pid if agent.worker else 0):
            if is_program(child, "gpu-worker") or is_program(child, "sleep"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)


def children_of(pid: int) -> list[int]:
    """The processes that these threads of a process started and that have not been waited for."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(child) for child in task.read_text().split()]
    return found
