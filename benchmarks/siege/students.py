"""Students who work: ``python -m benchmarks.siege.students``, a process that is many Jupyter servers.

Each student has a lease, a keeper that renews it as a Jupyter server's does, and a kernel: a process that
computes on the slice every second. What to do comes as JSON in the first line of standard input; ``ready`` is
printed when all compute. When the input ends they stop, and the outcome is printed as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_kernels.client import Lease, PoolClient, Slot
from gpu_kernels.client.keeper import Keeper
from gpu_kernels.client.lease_holder import LeaseHolder
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.remoting.environment import client_environment

SIZE = "0.02 V100"
KERNEL = Path(__file__).parent / "kernel.py"
STARTS_WITHIN_S = 120.0


@dataclass
class Renewals:
    """The keeper's client: each renewal as (when it began, seconds, what went wrong or '')."""

    client: PoolClient
    seen: list[tuple[float, float, str]] = field(default_factory=list)

    def renew(self, leases: Iterable[tuple[str, int]]) -> Any:
        began = time.monotonic()
        error = "it was interrupted"
        try:
            answer = self.client.renew(leases)
            error = ""
            return answer
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
            raise
        finally:
            self.seen.append((began, time.monotonic() - began, error))


class Student:
    """Has a lease and computes on it, until ``stop``."""

    def __init__(self, url: str, token: str, folder: Path) -> None:
        self.client = PoolClient(url, token)
        self.renewals = Renewals(self.client)
        self.lost_because: str | None = None
        self._name, self._folder = token, folder
        self.lease: Lease = self.client.ask(SIZE, key=token, slot=Slot("", token), holder=token)
        self._holder = LeaseHolder.of_granted(LeaseRequest(SIZE, Slot("", token), token, token), self.lease)
        self._holder.on_lost = self._lost
        self._keeper = Keeper()
        self._keeper.keep(self.renewals, self._holder)
        self._steps = folder / f"{token}.steps"
        self._said = folder / f"{token}.said"
        environment = client_environment(self.lease, os.environ)
        with self._said.open("wb") as said:
            command = [sys.executable, "-I", "-S", str(KERNEL), "steps", str(self._steps)]
            self.kernel = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stderr=said)

    def _lost(self, holder: LeaseHolder) -> None:
        assert holder.loss is not None
        self.lost_because = holder.loss.text

    def computes(self) -> bool:
        if self.kernel.poll() is not None:
            raise RuntimeError(f"a kernel did not start: {self._said.read_text()}")
        return self._steps.exists() and self._steps.stat().st_size > 0

    def stop(self) -> dict[str, Any]:
        """What became of this student."""
        self._keeper.forget(self._holder)
        kernel_ended = self.kernel.poll() is not None
        if not kernel_ended:
            self.kernel.kill()
            self.kernel.wait()
        lines = self._steps.read_text().splitlines(keepends=True)
        steps = [tuple(map(float, line.split())) for line in lines if line.endswith("\n")]
        return {
            "lease": self.lease.id,
            "epoch": self.lease.epoch,
            "lost": self.lost_because,
            "kernel_ended": self._said.read_text() or "without a word" if kernel_ended else None,
            "renewals": self.renewals.seen,
            "steps": steps,
        }


def main() -> None:
    told = json.loads(sys.stdin.readline())
    folder = Path(told["folder"])
    logging.basicConfig(filename=folder / "students.log")
    students = [Student(told["url"], token, folder) for token in told["tokens"]]
    end = time.monotonic() + STARTS_WITHIN_S
    while not all(student.computes() for student in students):
        if time.monotonic() > end:
            raise TimeoutError("some kernels did not begin to compute")
        time.sleep(0.1)
    print("ready", flush=True)
    sys.stdin.read()
    print(json.dumps([student.stop() for student in students]), flush=True)


if __name__ == "__main__":
    main()
