"""A pool with class hours to play with: a ledger in memory, a clock by the wall of Berlin, and agents that
confirm everything at once unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from gpu_kernels.errors import PoolError
from gpu_kernels.pool.ledger import Ledger, Timing, Transaction
from gpu_kernels.pool.ledger.commands import accounts, agent_reports, registration, release, reservation
from gpu_kernels.pool.ledger.commands.class_hours import bookings
from gpu_kernels.pool.ledger.commands.sweep import sweep
from gpu_kernels.pool.ledger.queries import audit
from gpu_kernels.pool.ledger.state.rows import ClassHour, Event, Gpu, Lease, Seat, Window
from gpu_kernels.pool.ledger.state.states import IN_FORCE
from gpu_kernels.pool.ledger.stores.memory import Disk, MemoryStore
from gpu_kernels.pool.policy.agenda_model import FOREVER
from gpu_kernels.resources.agents import AgentReport, LiveLease, OfferedGpu, Registration
from gpu_kernels.units import parse_size

T = TypeVar("T")

ZONE = "Europe/Berlin"
MINUTE, HOUR = 60_000, 3_600_000
TTL = 20 * HOUR
"""Long, so that a test need not renew."""
TIMING = Timing(
    lease_ttl=TTL, agent_ttl=30_000, queue_ttl=20 * HOUR, swap_rest=10 * MINUTE, longest_life=8 * HOUR
)
MORNING = bookings.Pattern(
    course="ml101",
    size="0.1 V100",
    seats=10,
    weekdays="1",
    start="10:00",
    minutes=90,
    time_zone=ZONE,
    first_date="2027-03-01",
    last_date="2027-04-30",
)


def at(text: str) -> int:
    """``2027-03-01 10:00`` on the wall of Berlin, as an instant."""
    moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(ZONE))
    return int(moment.astimezone(UTC).timestamp() * 1000)


class School:
    def __init__(self, now: str = "2027-03-01 07:00", limit: int = 0) -> None:
        self.now = at(now)
        self.disk = Disk()
        self.boots: dict[str, str] = {}
        self.silent: set[str] = set()
        self.holding_on: set[str] = set()
        """Leases of which workers live on although they are over."""
        self.keys = 0
        self.start({"ml101": {"V100": limit}, "cv202": {"V100": limit}, "open": {"V100": 100_000}})

    def start(self, first_courses: dict[str, dict[str, int]] | None = None) -> None:
        """A controller starts, the first or another."""
        self.ledger = Ledger(MemoryStore(lambda: self.now, disk=self.disk), TIMING)
        self.ledger.start(first_courses or {})

    def write(self, work: Callable[[Transaction], T]) -> T:
        result = self.ledger.write(work)[0]
        self.check()
        return result

    # Servers

    def server(self, name: str = "gpu1", gpus: int = 1, mib: int = 10_000) -> None:
        offered = tuple(
            OfferedGpu(f"GPU-{name}-{n}", n, "V100", "software", "Software GPU", mib, mib)
            for n in range(gpus)
        )
        self.boots[name] = "1"
        said = Registration("1", f"tcp://{name}:1", "1", offered)
        self.write(lambda tx: registration.register(tx, name, said, owner="server") and None)

    def lose(self, name: str) -> None:
        self.silent.add(name)

    def return_(self, name: str) -> None:
        self.silent.discard(name)

    def _report(self, name: str) -> None:
        book = self.ledger.book
        living = list(book.in_force.of(name).values())
        living += [book.leases[lease] for lease in self.holding_on if lease in book.leases]
        said = AgentReport(
            boot_id="1",
            target_seq=book.agents[name].target_seq,
            incarnation=self.ledger.incarnation,
            leases=tuple(
                LiveLease(lease.id, lease.epoch, "active", 1, 1, 1, 1)
                for lease in living
                if lease.agent_name == name
            ),
        )
        self.write(lambda tx: agent_reports.report(tx, name, said, owner="server"))

    # Time

    def sweep(self) -> None:
        for name in sorted(self.boots.keys() - self.silent):
            self._report(name)
        self.write(sweep)
        for name in sorted(self.boots.keys() - self.silent):
            self._report(name)

    def go_to(self, when: str, *, step: int = 5 * MINUTE) -> None:
        """Time passes, and the sweeper runs all the while."""
        end = at(when)
        assert end >= self.now
        while self.now < end:
            self.now = min(end, self.now + step)
            self.sweep()

    def jump_to(self, when: str) -> None:
        """Time passes while no controller runs; then another one starts."""
        self.now = at(when)
        self.start()
        self.sweep()

    # People

    def class_hour(self, **fields: Any) -> ClassHour:
        pattern = replace(MORNING, **fields)
        self.now += 1  # no two are confirmed at the same time
        return self.write(lambda tx: bookings.create(tx, pattern, actor="grace"))

    def may_book(self, course: str, hours: float) -> None:
        """So many GPU-hours a week, whatever the pool has."""
        rules = {"class_hours_per_week": hours}
        self.write(lambda tx: accounts.set_rules(tx, course, rules, actor="root") and None)

    def change(self, class_hour: ClassHour, **fields: Any) -> ClassHour:
        return self.write(lambda tx: bookings.change(tx, class_hour.id, fields, actor="grace"))

    def cancel(self, class_hour: ClassHour) -> ClassHour:
        return self.write(lambda tx: bookings.cancel(tx, class_hour.id, actor="grace"))

    def ask(
        self,
        user: str,
        size: str = "0.1 V100",
        *,
        course: str = "ml101",
        path: str = "a.ipynb",
        wait: int = 0,
        preemptible: bool = False,
    ) -> Lease:
        """``wait`` is in seconds."""
        self.keys += 1
        request = reservation.LeaseRequest(
            user=user,
            groups=[course],
            course=course,
            size=parse_size(size),
            key=f"{path}#{self.keys}",
            server="",
            path=path,
            holder="kernel",
            wait_ms=wait * 1000,
            labels={},
            preemptible=preemptible,
        )
        return self.write(lambda tx: reservation.reserve(tx, request))

    def refused(self, user: str, size: str = "0.1 V100", **fields: Any) -> PoolError:
        try:
            lease = self.ask(user, size, **fields)
        except PoolError as error:
            return error
        raise AssertionError(f"{user} got {lease}")

    def release(self, lease: Lease) -> None:
        self.write(lambda tx: release.release(tx, lease.user, lease.id, "kernel") and None)

    # What is there

    def lease(self, lease: Lease) -> Lease:
        return self.ledger.book.leases[lease.id]

    def windows(self, class_hour: ClassHour) -> list[Window]:
        windows = self.ledger.book.windows_of.of(class_hour.id).values()
        return sorted(windows, key=lambda window: window.starts_at)

    def seats(self, window: Window, *states: str) -> list[Seat]:
        seats = sorted(self.ledger.book.seats_of.of(window.id).values(), key=lambda seat: seat.number)
        return [seat for seat in seats if not states or seat.state in states]

    def events(self, kind: str) -> list[dict[str, Any]]:
        rows = [row for row in self.disk.rows[Event].values() if isinstance(row, Event)]
        return [dict(row.detail) for row in sorted(rows, key=lambda row: row.id) if row.kind == kind]

    def check(self) -> None:
        """What must hold after every transaction."""
        assert self.ledger.read(audit.mismatch) == 0
        for gpu in self.ledger.book.gpus.values():
            self._check_gpu(gpu)
        again = Ledger(MemoryStore(lambda: self.now), TIMING).book
        again.load([row for rows in self.disk.rows.values() for row in rows.values()], 0)
        for since, until in ((self.now, self.now + 1), (self.now, FOREVER)):
            assert again.agenda.held_for(since, until) == self.ledger.book.agenda.held_for(since, until)

    def _check_gpu(self, gpu: Gpu) -> None:
        """Seats and leases in force fit the GPU together, now and at every instant to come."""
        book = self.ledger.book
        starts = {span.starts_at for span in book.agenda.spans(self.now)}
        parts = [
            (part, lease)
            for part in book.held.of(gpu.id).values()
            if (lease := book.leases[part.lease_id]).state in IN_FORCE
        ]
        for instant in {self.now, *(start for start in starts if start > self.now)}:
            seats = book.agenda.held_at(gpu.id, instant)
            there = [
                part
                for part, lease in parts
                if instant == self.now or instant < min(lease.ends_at or FOREVER, lease.preempt_at or FOREVER)
            ]
            if instant == self.now and self._not_yet_swept():
                continue
            if seats.mib and gpu.offered:
                assert seats.mib + sum(part.mib for part in there) <= gpu.offered_mib
                assert seats.thousandths + sum(part.thousandths for part in there) <= 1000

    def _not_yet_swept(self) -> bool:
        """Whether a window should have been opened, so that those on its seats make way in a moment."""
        spans = self.ledger.book.agenda.started(self.now)
        return any(self.ledger.book.windows[span.id].state == "planned" for span in spans)


def students(number: int) -> Collection[str]:
    return [f"student{n:02d}" for n in range(1, number + 1)]
