"""A ledger to play with: a real database, a clock set by the test, agents that do as they are told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from msgspec.json import decode, encode

from gpu_kernels.pool.ledger import Ledger, Timing, Transaction
from gpu_kernels.pool.ledger.commands import (
    agent_reports,
    quotas,
    registration,
    release,
    renewal,
    reservation,
)
from gpu_kernels.pool.ledger.commands.sweep import sweep
from gpu_kernels.pool.ledger.queries import agent_views, audit, lease_views, leases, pool_views
from gpu_kernels.pool.ledger.state.rows import Event, Row
from gpu_kernels.pool.ledger.stores import Store
from gpu_kernels.pool.ledger.stores.memory import Disk, MemoryStore
from gpu_kernels.pool.ledger.stores.sql import SqlStore, rows_of
from gpu_kernels.resources.agents import (
    AgentReport,
    AssignedLease,
    LiveLease,
    OfferedGpu,
    OutsideMemory,
    Registration,
)
from gpu_kernels.resources.leases import Renewal
from gpu_kernels.units import parse_size

T = TypeVar("T")
R = TypeVar("R", bound=Row)

TTL = 60_000
TIMING = Timing(lease_ttl=TTL, agent_ttl=30_000, queue_ttl=45_000, swap_rest=10 * TTL)
FIRST_COURSES = {"ml101": {"V100": 100}, "cv202": {"V100": 1000, "A100": 500}}
Lease = dict[str, Any]
"""As JSON has it."""


def as_json(answer: Any) -> Any:
    """As a client reads it that has no types."""
    return decode(encode(answer))


class SetClock(SqlStore):
    """A store whose clock the test sets."""

    def __init__(self, url: str, clock: Callable[[], int]) -> None:
        super().__init__(url)
        self._clock = clock

    def begin(self, *, writes: bool = True) -> int:
        super().begin(writes=writes)
        return self._clock()


class Rig:
    """One controller's ledger, a few agents, and a clock in milliseconds."""

    def __init__(self, path: Path, courses: dict[str, dict[str, int]] | None = None) -> None:
        self.url = f"sqlite:///{path}"
        self.now = 1_800_000_000_000
        self.courses = FIRST_COURSES if courses is None else courses
        self.boots: dict[str, str] = {}
        self.open()

    def store(self) -> Store:
        """A store of this ledger, as a controller opens it that starts."""
        return SetClock(self.url, lambda: self.now)

    def open(self) -> None:
        self.ledger = Ledger(self.store(), TIMING)
        self.ledger.start(self.courses)

    def restart(self) -> None:
        """The controller ends and starts again on the same database."""
        self.ledger.close()
        self.open()

    def write(self, work: Callable[[Transaction], T]) -> T:
        return self.ledger.write(work)[0]

    def read(self, work: Callable[[Transaction], T]) -> T:
        return self.ledger.read(work)

    def agent(
        self,
        name: str = "gpu1",
        *,
        gpus: int = 1,
        mib: int = 32768,
        gpu_class: str = "V100",
        boot: str = "1",
        uuids: Sequence[str] | None = None,
        fences_after: int = 0,
        owner: str = "gpu-server",
        address: str | None = None,
    ) -> None:
        """An agent registers (again)."""
        offered = tuple(
            OfferedGpu(uuid, index, gpu_class, "software", "Software GPU", mib, mib)
            for index, uuid in enumerate(uuids or [f"GPU-{name}-{index}" for index in range(gpus)])
        )
        said = Registration(boot, address or f"tcp://{name}:1", "1", offered, fences_after / 1000)
        self.write(lambda tx: registration.register(tx, name, said, owner=owner))
        self.boots[name] = boot

    def target(self, name: str = "gpu1") -> tuple[int, list[AssignedLease]]:
        return self.read(lambda tx: agent_views.agent_target(tx, name))

    def report(
        self,
        name: str = "gpu1",
        *,
        done: int | None = None,
        alive: Collection[Lease] = (),
        boot: str | None = None,
        counts_by: str | None = None,
        epoch: int = 0,
        outside: Collection[tuple[str, int]] = (),
    ) -> None:
        """The agent reports; by default that it has done everything and that nothing lives there."""
        done_seq = self.target(name)[0] if done is None else done
        inventory = (
            LiveLease(lease["id"], lease["epoch"], "active", 10, 20, 1, lease.get("launches", 5))
            for lease in alive
        )
        said = AgentReport(
            boot_id=boot or self.boots[name],
            target_seq=done_seq,
            incarnation=self.ledger.incarnation if counts_by is None else counts_by,
            epoch=epoch,
            leases=tuple(inventory),
            outside=tuple(OutsideMemory(uuid, mib) for uuid, mib in outside),
        )
        self.write(lambda tx: agent_reports.report(tx, name, said, owner="gpu-server"))

    def request(
        self,
        path: str = "a.ipynb",
        size: str = "0.02 V100",
        *,
        user: str = "ada",
        groups: Collection[str] = ("ml101",),
        course: str | None = None,
        key: str | None = None,
        holder: str = "kernel-1",
        server: str = "",
        wait: float = 0,
        wait_for_course: bool = False,
    ) -> reservation.LeaseRequest:
        key = f"{path} {size}" if key is None else key
        return reservation.LeaseRequest(
            user=user,
            groups=groups,
            course=course,
            size=parse_size(size),
            key=key,
            server=server,
            path=path,
            holder=holder,
            wait_ms=int(wait * 1000),
            labels={},
            wait_for_course=wait_for_course,
        )

    def reserve(self, path: str = "a.ipynb", size: str = "0.02 V100", **fields: Any) -> Lease:
        request = self.request(path, size, **fields)

        def work(tx: Transaction) -> Lease:
            return as_json(lease_views.lease_view(tx, reservation.reserve(tx, request)))

        return self.write(work)

    def lease(self, lease: Lease) -> Lease:
        """The lease as it is now."""
        return as_json(
            self.read(lambda tx: lease_views.lease_view(tx, leases.owned(tx, lease["user"], lease["id"])))
        )

    def state(self, lease: Lease) -> str:
        return str(self.lease(lease)["state"])

    def leases(self, **fields: Any) -> list[Lease]:
        return as_json(self.read(lambda tx: lease_views.leases(tx, **fields)))

    def release(self, lease: Lease, holder: str | None = None, user: str | None = None) -> None:
        who = holder or lease["holder"]
        self.write(lambda tx: release.release(tx, user or lease["user"], lease["id"], who) and None)

    def renew(self, *leases: Lease, user: str = "ada") -> Renewal:
        pairs = [(lease["id"], lease["epoch"]) for lease in leases]
        return self.write(lambda tx: renewal.renew(tx, user, pairs))

    def keep_waiting(self, lease: Lease) -> None:
        self.write(lambda tx: renewal.keep_waiting(tx, lease["user"], lease["id"]) and None)

    def set_limit(self, course: str, limit: dict[str, int]) -> None:
        self.write(lambda tx: quotas.set_limit(tx, course, limit, actor="grace", create=True))

    def sweep(self) -> None:
        self.write(sweep)

    def pass_time(self, milliseconds: int, *, agents_report: bool = True) -> None:
        """Time passes; agents that are there go on telling what lives, and the sweep runs."""
        self.now += milliseconds
        if agents_report:
            living = [lease for lease in self.leases() if lease["state"] == "active"]
            for name in self.boots:
                self.report(name, done=0, alive=[lease for lease in living if lease["agent"]["name"] == name])
        self.sweep()

    def used(self) -> list[tuple[int, int]]:
        return [(gpu.used_mib, gpu.used_thousandths) for gpu in self.read(pool_views.gpus)]

    def rows(self, kind: type[R]) -> list[R]:
        """What the database has of a table."""
        return rows_of(self.ledger.store, [kind])  # type: ignore[arg-type, list-item]

    def trail(self, subject: str) -> list[tuple[str, str]]:
        """What the audit trail says of something: who, what."""
        events = sorted(self.rows(Event), key=lambda event: event.id)
        return [(event.actor, event.kind) for event in events if event.subject == subject]

    def mismatch(self) -> int:
        return self.read(audit.mismatch)

    def close(self) -> None:
        self.ledger.close()


class MemoryRig(Rig):
    """The same over a store in memory; ``store`` is its class."""

    def __init__(
        self,
        courses: dict[str, dict[str, int]] | None = None,
        store: type[MemoryStore] = MemoryStore,
    ) -> None:
        self.kind = store
        self.disk = Disk()
        self._numbers = count(1)
        super().__init__(Path(), courses)

    def store(self) -> Store:
        return self.kind(lambda: self.now, lambda: f"ledger-{next(self._numbers)}", self.disk)

    def rows(self, kind: type[R]) -> list[R]:
        return list(self.disk.rows[kind].values())  # type: ignore[index, arg-type]
