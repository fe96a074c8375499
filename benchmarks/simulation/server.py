"""A GPU server without its processes: the agent's own rules for what may be served, its disk, its workers,
and its messages as values that can be lost, delayed and repeated.

A server's clock is the machine's true time in seconds, which only goes on; the store's clock may be set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from gpu_kernels.remoting.agent.grants import Grants
from gpu_kernels.resources.agents import AgentReport, Assignment, LiveLease, OfferedGpu, Registration
from gpu_kernels.resources.leases import LeaseSlice

MIB = {"V100": 32768, "A100": 16384}
DIGEST = "ab" * 32


@dataclass(frozen=True)
class Report:
    """A report on its way, with all that was true when it was made."""

    agent: str
    said: AgentReport
    made_at: float


@dataclass
class Worker:
    """A process that uses slices. ``until``: it ends by itself then. ``dying``: killed, not dead yet."""

    lease: str
    epoch: int
    slices: tuple[LeaseSlice, ...]
    until: float
    dying: bool = False


@dataclass
class Server:
    """A machine with GPUs, and the agent process on it (``boot`` None: none runs)."""

    name: str
    gpu_class: str
    gpus: int
    fences_after: float
    boots: int = 0
    boot: str | None = None
    paused: bool = False
    registered: bool = False
    floors: dict[str, int] = field(default_factory=dict)
    epoch: int = 0
    workers: list[Worker] = field(default_factory=list)
    grants: Grants = field(init=False)

    def __post_init__(self) -> None:
        self.offered = tuple(
            OfferedGpu(
                uuid=f"GPU-{self.name}-{index}",
                index=index,
                gpu_class=self.gpu_class,
                device="software",
                name="Software GPU",
                total_mib=MIB[self.gpu_class],
                allocatable_mib=MIB[self.gpu_class],
            )
            for index in range(self.gpus)
        )

    def starts(self) -> bool:
        """A new agent process; it waits while workers of the last one live."""
        if self.boot is not None or self.workers:
            return False
        self.boots += 1
        self.boot = f"{self.name}-{self.boots}"
        self.registered = self.paused = False
        self.grants = Grants(
            [gpu.uuid for gpu in self.offered],
            self.floors,
            highest_epoch=self.epoch,
            fences_after=self.fences_after or float("inf"),
        )
        return True

    def is_killed(self) -> None:
        """kill -9: the agent is gone, its workers get their signal and take their time."""
        self.boot = None
        for worker in self.workers:
            worker.dying = True

    def registration(self) -> Registration:
        assert self.boot is not None
        return Registration(self.boot, f"tcp://{self.name}:1", "1", self.offered, self.fences_after)

    def report(self, now: float) -> Report:
        assert self.boot is not None
        alive = tuple(
            LiveLease(w.lease, w.epoch, "draining" if w.dying else "active", 10, 20, 1, 5)
            for w in self.workers
        )
        grants = self.grants
        said = AgentReport(
            boot_id=self.boot,
            target_seq=grants.applied_seq,
            incarnation=grants.incarnation,
            full=grants.in_doubt,
            epoch=self.epoch,
            leases=alive,
        )
        return Report(self.name, said, now)

    def hears(self, told: Assignment, report: Report, now: float) -> None:
        """The answer to a report of this process."""
        if report.said.boot_id != self.boot:
            return
        name = "leases" if told.in_full else "changes"
        proven = tuple(replace(lease, secret_sha256=DIGEST) for lease in told.told)
        change = self.grants.apply(replace(told, **{name: proven}), report.made_at)
        if change is None:
            return
        self.floors, self.epoch = dict(self.grants.floors), self.grants.highest_epoch
        self._kills_what_is_not_served(now)
        for worker in self.workers:
            if not worker.dying:
                worker.until = self.grants.served_until((worker.lease, worker.epoch))

    def is_replaced(self) -> None:
        """Told that another process has its name: it serves nothing, and comes back as a new one."""
        self.grants.drop_all()
        self._kills_what_is_not_served(0.0)
        self.boots += 1
        self.boot = f"{self.name}-{self.boots}"
        self.registered = False
        self.grants.forget_sequence()

    def serves(self, lease: str, epoch: int, now: float) -> bool:
        """A client's connection: whether it gets a worker."""
        if self.boot is None or self.paused or not self.registered:
            return False
        if not self.grants.serves((lease, epoch), now):
            return False
        of_lease = [worker for worker in self.workers if worker.lease == lease]
        if any(worker.epoch == epoch and not worker.dying for worker in of_lease):
            return True
        if of_lease or not self._fits(lease):
            return False
        grant = self.grants._by_id[lease]
        self.workers.append(Worker(lease, epoch, grant.slices, self.grants.served_until(grant.key)))
        return True

    def _fits(self, lease: str) -> bool:
        for part in self.grants._by_id[lease].slices:
            there = [other for _, other in self.in_use() if other.gpu == part.gpu]
            if part.mib + sum(other.mib for other in there) > MIB[self.gpu_class]:
                return False
        return True

    def time_passes(self, now: float) -> None:
        """Workers end at the time that they were told, whatever the agent does; a running agent fences."""
        for worker in self.workers:
            if worker.until <= now:
                worker.dying = True
        self.workers = [worker for worker in self.workers if worker.until > now]
        if self.boot is not None and not self.paused:
            self._kills_what_is_not_served(now)

    def _kills_what_is_not_served(self, now: float) -> None:
        for worker in self.workers:
            if not self.grants.serves((worker.lease, worker.epoch), now):
                worker.dying = True

    def buries(self) -> None:
        """What was killed is dead now."""
        self.workers = [worker for worker in self.workers if not worker.dying]

    def in_use(self) -> Iterator[tuple[Worker, LeaseSlice]]:
        for worker in self.workers:
            for part in worker.slices:
                yield worker, part
