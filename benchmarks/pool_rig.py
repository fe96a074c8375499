"""What ``benchmarks.pool`` measures: a ledger of some size, and a controller in a process of its own."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import time
from collections import defaultdict
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Self

from gpu_kernels.client import PoolClient
from gpu_kernels.pool.ledger import Caps, Job, Ledger, Timing
from gpu_kernels.pool.ledger.commands import agent_reports, registration, release, renewal, reservation
from gpu_kernels.pool.ledger.state.states import IN_FORCE
from gpu_kernels.pool.ledger.stores import Store
from gpu_kernels.pool.memory import count_references
from gpu_kernels.resources.agents import AgentReport, OfferedGpu, Registration
from gpu_kernels.units import parse_size

GPUS_EACH = 8
MIB = 32768
SIZE = "0.02 V100"
LIMIT = 10_000_000
DAY = 86_400_000


class LedgerRig:
    """A ledger with some servers, and leases in force of which nobody lets go."""

    def __init__(self, store: Store, servers: int, leases: int) -> None:
        timing = Timing(lease_ttl=DAY, agent_ttl=DAY)
        self.ledger = Ledger(store, timing, caps=Caps(10**6, 10**6, 10**6))
        self.ledger.start({f"course{number}": {"V100": LIMIT} for number in range(20)})
        self._servers = 0
        self._numbers = count(1)
        self._new: list[str] = []
        self._add_servers(servers)
        self.hold(leases)
        count_references()

    def _add_servers(self, number: int) -> None:
        for _ in range(number):
            self._servers += 1
            name = f"gpu{self._servers}"
            offered = tuple(
                OfferedGpu(f"{name}-{index}", index, "V100", "software", "Software GPU", MIB, MIB)
                for index in range(GPUS_EACH)
            )
            said = Registration("1", "tcp://x:1", "1", offered)
            self.ledger.write(partial(registration.register, name=name, said=said, owner="bench"))

    def reserve(self, grants: int, *, together: int) -> None:
        """So many grants, of which some share a batch."""
        for start in range(0, grants, together):
            jobs = [Job(self._reserving()) for _ in range(min(together, grants - start))]
            self._new += [outcome.get().id for outcome in self.ledger.run(jobs).outcomes]

    def _reserving(self) -> Any:
        number = next(self._numbers)
        course = f"course{number % 20}"
        request = reservation.LeaseRequest(
            f"user{number}", [course], course, parse_size(SIZE), str(number), "", str(number), "h", 0, {}
        )
        return lambda tx: reservation.reserve(tx, request)

    def hold(self, leases: int) -> None:
        """Let so many leases be in force, on as many servers as that takes."""
        missing = leases - self._in_force()
        room = self._servers * GPUS_EACH * 45 - self._in_force()
        if missing > room:
            self._add_servers(-(-(missing - room) // (GPUS_EACH * 45)))
        self.reserve(max(0, missing), together=200)
        self._new = []

    def _in_force(self) -> int:
        return sum(lease.state in IN_FORCE for lease in self.ledger.book.leases.values())

    def end_new(self) -> None:
        """Release what was reserved since, and let the agents confirm it."""
        owners = {lease_id: self.ledger.book.leases[lease_id].user for lease_id in self._new}
        jobs = [
            Job(lambda tx, lease=lease, user=user: release.release(tx, user, lease, "h"))  # type: ignore[misc]
            for lease, user in owners.items()
        ]
        self.ledger.run(jobs)
        self._new = []
        for agent in list(self.ledger.book.agents.values()):
            said = AgentReport(
                boot_id="1", target_seq=agent.target_seq, incarnation=self.ledger.incarnation, leases=()
            )
            self.ledger.write(partial(agent_reports.report, name=agent.name, said=said, owner="bench"))

    def renew_everything(self, calls: int) -> float:
        """Seconds that it takes to renew all leases in so many calls, batched as a controller does."""
        by_user: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for lease in self.ledger.book.leases.values():
            if lease.state in IN_FORCE:
                by_user[lease.user].append((lease.id, lease.epoch))
        users = sorted(by_user)
        share = -(-len(users) // calls)
        wanted = [users[start : start + share] for start in range(0, len(users), share)]

        def renewing(of: list[str]) -> Any:
            def renew(tx: Any) -> None:
                for user in of:
                    assert not renewal.renew(tx, user, by_user[user]).lost

            return renew

        started = time.perf_counter()
        for start in range(0, len(wanted), 200):
            batch = self.ledger.run([Job(renewing(of)) for of in wanted[start : start + 200]])
            assert not [outcome.error for outcome in batch.outcomes if outcome.error]
        return time.perf_counter() - started

    def close(self) -> None:
        self.ledger.close()


class Controller:
    """A controller on a loopback port, with one server that has GPUs for everybody, and tokens
    ``studentN``, ``teacher`` and ``admin``.
    """

    url: str

    def __init__(self, folder: Path, students: int, **others: object) -> None:
        """``others``: settings of the controller."""
        self._state = folder / "state"
        self._state.mkdir(mode=0o700)
        entries = {
            f"student{number}": {"groups": ["bench"], "scopes": ["custom:gpu:use"]}
            for number in range(students)
        }
        entries["server"] = {"groups": [], "scopes": ["custom:gpu:agent!server=gpu0"]}
        entries["teacher"] = {"groups": ["bench-instructors"], "scopes": ["custom:gpu:use"]}
        entries["admin"] = {"groups": [], "scopes": ["custom:gpu:admin:pool", "custom:gpu:admin:quota"]}
        tokens = self._state / "tokens.json"
        tokens.touch(mode=0o600)
        digests = {
            hashlib.sha256(name.encode()).hexdigest(): {"name": name, **entry}
            for name, entry in entries.items()
        }
        tokens.write_text(json.dumps(digests))
        self._done, self._counts_by = 0, ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._go_on_reporting)
        self._url_file = self._state / "url"
        self._config = self._state / "config.json"
        settings = {
            "state_dir": str(self._state),
            "port": 0,
            "courses": {"bench": {"V100": {"thousandths": LIMIT}}},
            "log_level": "WARN",
            "max_requests": 1e6,
            "url_file": str(self._url_file),
            **others,
        }
        self._config.write_text(json.dumps({"PoolController": settings}))

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "gpu_kernels.pool", f"--config={self._config}"]
        self._process = subprocess.Popen(command)
        while not self._url_file.exists():
            if self._process.poll() is not None:
                raise RuntimeError("the controller did not start")
            time.sleep(0.02)
        self.url = self._url_file.read_text()
        self._server = PoolClient(self.url, "server")
        gpus = tuple(
            OfferedGpu(f"GPU-{index}", index, "V100", "software", "Software GPU", MIB, MIB)
            for index in range(16)
        )
        self._server.register_agent("gpu0", Registration("1", "tcp://127.0.0.1:1024", "1", gpus))
        self._thread.start()
        return self

    def confirm(self) -> None:
        """The server says that nothing lives there, and so frees what is over."""
        self._report()
        self._report()

    def _report(self) -> None:
        said = AgentReport(boot_id="1", target_seq=self._done, incarnation=self._counts_by, leases=())
        told = self._server.report_agent("gpu0", said)
        self._done, self._counts_by = told.target_seq, told.incarnation

    def _go_on_reporting(self) -> None:
        while not self._stopping.wait(5.0):
            self._report()

    def __exit__(self, *exception: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._server.close()
        self._process.terminate()
        self._process.wait()
