"""One machine for the whole ledger: servers, courses, requests and time, under lost, late and repeated
messages, failing statements and dying controllers; the same rules on each store.

``true`` is the time that really passes, in seconds; ``clock`` is the store's, in milliseconds, and may be
set.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from benchmarks.simulation.faulty_store import Died, Fault, FaultyStore
from benchmarks.simulation.invariants import (
    LIVING,
    SERVED,
    Tables,
)
from benchmarks.simulation.server import Report, Server
from gpu_kernels.errors import AgentReplaced, LedgerUnavailable, NotActive, PoolError, UnknownAgent
from gpu_kernels.pool.ledger import ClockGuard, Ledger, Transaction
from gpu_kernels.pool.ledger.commands import (
    accounts,
    agent_reports,
    quotas,
    registration,
    release,
    reservation,
    servers,
)
from gpu_kernels.pool.ledger.commands.class_hours import bookings
from gpu_kernels.pool.ledger.commands.renewal import Renewal, keep_waiting, renew
from gpu_kernels.pool.ledger.commands.sweep import sweep
from gpu_kernels.pool.ledger.commands.termination import revoke
from gpu_kernels.pool.ledger.queries import agent_views
from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.pool.ledger.state.states import Who
from gpu_kernels.pool.ledger.stores import Deposed
from gpu_kernels.pool.policy.quota import Limits
from gpu_kernels.resources.agents import Assignment
from gpu_kernels.units import parse_size
from tests.pool.machine.checked import (
    ALL_ACCOUNTS,
    ROUND,
    SERVERS,
    SIZES,
    TIMING,
    TTL,
    USERS,
    Checked,
    Unknown,
    late,
    names,
    users,
)
from tests.pool.machine.stores import Clock, Kept

T = TypeVar("T")


class PoolMachine(Checked):
    """Subclasses say where the ledger is kept: ``keep``."""

    @staticmethod
    def keep(clock: Clock) -> Kept:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.clock = 1_800_000_000_000
        self.true = 1000.0
        self.kept = self.keep(lambda: self.clock)
        self.servers = {name: Server(name, *facts) for name, facts in SERVERS.items()}
        self.mail: list[tuple[str, Any]] = []
        self.good_until: dict[str, float] = {}
        self.zombies: list[Ledger] = []
        self.before = self.checked = self.tables = Tables()

    # --- the controller

    @initialize()
    def begin(self) -> None:
        self.start_controller()
        self.ask(lambda tx: accounts.put_account(tx, "school", actor="root", kind="institution"))
        self.ask(
            lambda tx: accounts.put_account(tx, "faculty", actor="root", kind="faculty", parent="school")
        )
        self.ask(lambda tx: accounts.put_account(tx, "ml101", actor="root", kind="course", parent="faculty"))
        self.all_servers_report()
        for user, path, size in (("ada", "a", "0.02 V100"), ("bob", "b", "0.25 GPU"), ("eve", "c", "2 V100")):
            self.somebody_asks(user, path, size, 0, 600)
        self.all_goes_well_for_a_while(1)

    def start_controller(self) -> None:
        """A controller starts on what is committed, alone or in place of another."""
        self.store = FaultyStore(self.kept.store())
        self.ledger = Ledger(
            self.store, TIMING, clock_guard=ClockGuard(ROUND * 1000, TTL, lambda: self.true), holder="machine"
        )
        self.ledger.start({"ml101": {"V100": 300, "A100": 1000}, "cv202": {"V100": 2500, "A100": 1000}})
        for lease in self.now_in(*SERVED):
            self.good_until[lease.id] = self.true + TTL / 1000  # nobody could renew while none ran

    def ask(self, work: Callable[[Transaction], T]) -> T:
        """One request to the controller. Raises ``Unknown`` where no answer came, or what was refused."""
        try:
            return self.ledger.write(work)[0]
        except Died:
            self.kept.gone(self.store.inner)
            self.start_controller()
            raise Unknown from None
        except LedgerUnavailable:
            raise Unknown from None

    def try_to(self, work: Callable[[Transaction], Any]) -> None:
        """A request of which it does not matter whether it is refused, or answered."""
        with suppress(Unknown, PoolError):
            self.ask(work)

    def look(self, work: Callable[[Transaction], T]) -> T:
        with self.store.spared():
            return self.ledger.read(work)

    @rule(fault=st.sampled_from(Fault), statements=st.integers(0, 25))
    def a_fault_is_near(self, fault: Fault, statements: int) -> None:
        self.store.strike(fault, statements)

    @rule(
        trouble=st.sampled_from(["restarts", "is deposed", "is deposed", "stands still", "clock is set"]),
        data=st.data(),
    )
    def the_controller(self, trouble: str, data: st.DataObject) -> None:
        if trouble == "restarts":
            self.kept.gone(self.store.inner)
            self.let_pass(data.draw(st.sampled_from([0.0, 59.0, 100.0, 4000.0])))
            self.start_controller()
        elif trouble == "is deposed":  # it stood still, a standby took its term, and it does not know
            self.store.heal()
            self.zombies.append(self.ledger)
            self.start_controller()
        elif trouble == "stands still":
            seconds = data.draw(st.sampled_from([16.0, 59.0, 100.0, 4000.0]))
            if seconds * 1000 > TTL / 4 + ROUND * 1000:  # so long is noticed, and all but a round given back
                for lease_id, until in self.good_until.items():
                    self.good_until[lease_id] = until + seconds - ROUND if until > self.true else until
            self.let_pass(seconds)
        else:
            by = data.draw(st.sampled_from([-86_400.0, -3600.0, -30.0, 30.0, 90.0, 3600.0]))
            self.clock += round(by * 1000)

    @precondition(lambda self: self.zombies)
    @rule()
    def a_deposed_controller_goes_on(self) -> None:
        zombie = self.zombies.pop()
        for _ in range(2):
            try:
                zombie.write(sweep)
            except (Deposed, NotActive):
                continue
            raise AssertionError("a controller wrote after another had taken its term")

    # --- servers

    def exchange(self, name: str, how: str = "now") -> None:
        """A server's agent starts or registers if it must, and reports."""
        server = self.servers[name]
        if server.boot is None and not server.starts():
            return
        if server.paused:
            return
        try:
            if not server.registered:
                self.registers(server)
                return
            report = server.report(self.true)
            if how in ("later", "twice"):
                self.mail.append(("report", report))
            if how in ("now", "twice"):
                self.answer(report)
        except Unknown:
            return

    def registers(self, server: Server) -> None:
        said = server.registration()
        self.ask(lambda tx: registration.register(tx, server.name, said, owner="gpu-server"))
        server.registered = True
        server.grants.forget_sequence()

    def answer(self, report: Report) -> None:
        """The controller takes a report; the server hears the answer if it still is the one that asked."""

        def work(tx: Transaction) -> Assignment:
            agent_reports.report(tx, report.agent, report.said, owner="gpu-server")
            return agent_views.agent_told(tx, report.agent, report.said)

        server = self.servers[report.agent]
        ours = report.said.boot_id == server.boot
        try:
            told = self.ask(work)
        except AgentReplaced:
            if ours and not server.paused:
                server.is_replaced()
            return
        except UnknownAgent:
            server.registered = server.registered and not ours
            return
        if ours and not server.paused and report.made_at == self.true:
            server.hears(told, report, self.true)

    @rule(name=names, how=late)
    def a_server_reports(self, name: str, how: str) -> None:
        self.exchange(name, how)

    def all_servers_report(self) -> None:
        for name in sorted(SERVERS):
            self.exchange(name)
            self.exchange(name)

    @rule(data=st.data(), keeps=st.booleans())
    @precondition(lambda self: self.mail)
    def a_late_message_arrives(self, data: st.DataObject, keeps: bool) -> None:
        """In any order, and perhaps not for the last time."""
        number = data.draw(st.integers(0, len(self.mail) - 1))
        kind, message = self.mail[number] if keeps else self.mail.pop(number)
        if kind == "report":
            with suppress(Unknown):
                self.answer(message)
        else:
            self.try_to(message)

    @rule(name=names, what=st.sampled_from(["killed", "dead", "dead", "paused", "paused", "lost"]))
    def a_server_is(self, name: str, what: str) -> None:
        """``killed``: kill -9 of its agent; ``dead``: what was killed there has died; ``paused``: its agent
        stands still, or goes on; ``lost``: it is off, and a person says so.
        """
        server = self.servers[name]
        if what == "killed":
            server.is_killed()
        elif what == "dead":
            server.buries()
        elif what == "paused":
            server.paused = not server.paused and server.boot is not None
        else:
            server.is_killed()
            server.buries()
            self.try_to(lambda tx: servers.declare_lost(tx, name, actor="root"))

    @rule(name=names, standing=st.sampled_from(["open", "cordoned", "draining"]), soon=st.booleans())
    def a_server_is_cordoned_drained_or_opened(self, name: str, standing: str, soon: bool) -> None:
        drain_by = self.clock + 20_000 if soon and standing == "draining" else None
        self.try_to(lambda tx: servers.set_standing(tx, name, standing, actor="root", drain_by=drain_by))

    # --- courses

    @rule(account=st.sampled_from(ALL_ACCOUNTS), gpu_class=st.sampled_from(["V100", "A100"]), data=st.data())
    def a_quota_is_set(self, account: str, gpu_class: str, data: st.DataObject) -> None:
        amounts = st.sampled_from([0, 20, 300, 1000, 2500])
        limits = Limits(
            nominal=data.draw(amounts),
            borrowing_limit=data.draw(st.none() | amounts),
            lending_limit=data.draw(st.none() | amounts),
            hard_limit=data.draw(st.none() | amounts),
        )
        self.try_to(lambda tx: quotas.put_quota(tx, account, gpu_class, limits, actor="root"))

    @rule(course=st.sampled_from(["ml101", "cv202"]), limit=st.sampled_from([0, 20, 300, 2500]))
    def an_instructor_sets_a_limit(self, course: str, limit: int) -> None:
        limits = {"V100": limit, "A100": 1000}
        self.try_to(lambda tx: quotas.set_limit(tx, course, limits, actor="grace", create=True))

    # --- users

    @rule(
        user=users,
        path=st.sampled_from("abcd"),
        size=st.sampled_from(SIZES),
        key=st.integers(0, 4),
        wait=st.sampled_from([0, 30, 600]),
    )
    def somebody_asks(self, user: str, path: str, size: str, key: int, wait: int) -> None:
        request = reservation.LeaseRequest(
            user, [USERS[user]], None, parse_size(size), f"{path}{key}", "", path, f"kernel-{key}",
            wait * 1000, {},
        )  # fmt: skip
        try:
            lease = self.ask(lambda tx: reservation.reserve(tx, request))
        except (Unknown, PoolError):
            return
        assert (lease.user, lease.path, lease.live_key) == (user, path, f"{path}{key}")
        assert wait or lease.state in SERVED or lease.id in self.tables.leases
        if lease.state in SERVED and lease.granted_at == self.clock:
            self.good_until[lease.id] = self.true + TTL / 1000

    @rule(user=users, path=st.sampled_from("efgh"))
    def somebody_asks_for_little(self, user: str, path: str) -> None:
        self.somebody_asks(user, path, "0.02 V100", 0, 0)

    def now_in(self, *states: str) -> list[Lease]:
        """The leases in these states at this moment, in the middle of a step too."""
        self.tables = Tables.of(self.kept.rows())
        return [lease for lease in self.tables.leases.values() if lease.state in states]

    @rule(seats=st.integers(1, 4), starts_in=st.integers(0, 40), course=st.sampled_from(["ml101", "cv202"]))
    def a_class_is_planned(self, seats: int, starts_in: int, course: str) -> None:
        begins = datetime.fromtimestamp(self.clock / 1000, UTC) + timedelta(minutes=starts_in)
        pattern = bookings.Pattern(
            course=course, size="0.25 V100", seats=seats, weekdays="1234567", start=f"{begins:%H:%M}",
            minutes=30, time_zone="UTC", first_date=f"{begins:%Y-%m-%d}",
            last_date=f"{begins + timedelta(days=2):%Y-%m-%d}",
        )  # fmt: skip
        self.try_to(partial(bookings.create, pattern=pattern, actor="grace"))

    def drawn(self, data: st.DataObject, *states: str) -> Lease | None:
        """One of the leases in these states, in the order in which they were asked for."""
        found = [lease for lease in self.tables.leases.values() if lease.state in states]
        if not found:
            return None
        return data.draw(st.sampled_from(sorted(found, key=lambda lease: (lease.turn, lease.created_at))))

    @rule(data=st.data(), right=st.sampled_from([True, True, False]), how=late)
    def a_lease_is_released(self, data: st.DataObject, right: bool, how: str) -> None:
        lease = self.drawn(data, *LIVING)
        if lease is None:
            return
        holder = lease.holder if right else "nobody"

        def work(tx: Transaction) -> Lease:
            return release.release(tx, lease.user, lease.id, holder)

        if how in ("later", "twice"):
            self.mail.append(("release", work))
        if how in ("now", "twice"):
            try:
                after = self.ask(work)
            except Unknown:
                return
            assert (after.state in LIVING) == (not right)

    @rule(data=st.data())
    def an_admin_takes_a_lease_back(self, data: st.DataObject) -> None:
        lease = self.drawn(data, *LIVING)
        if lease is None:
            return
        self.try_to(
            lambda tx: revoke(tx, tx.book.leases[lease.id], who=Who.ADMIN, actor="root", reason="Enough.")
        )

    @rule(user=users, how=late)
    def a_keeper_renews(self, user: str, how: str) -> None:
        pairs = [(lease.id, lease.epoch) for lease in self.now_in(*SERVED) if lease.user == user]

        def work(tx: Transaction) -> Renewal:
            return renew(tx, user, pairs)

        if how in ("later", "twice"):
            self.mail.append(("renew", work))
        if how in ("now", "twice"):
            started = self.true
            try:
                renewal = self.ask(work)
            except Unknown:
                return
            for lease_id, left in renewal.left.items():
                assert left * 1000 <= TTL
                self.good_until[lease_id] = max(self.good_until.get(lease_id, 0.0), started + left)

    @rule()
    def who_waits_goes_on_waiting(self) -> None:
        for lease in sorted(self.now_in("queued"), key=lambda lease: (lease.turn, lease.id)):
            self.try_to(partial(keep_waiting, user=lease.user, lease_id=lease.id))

    @rule(data=st.data())
    def a_kernel_uses_its_slice(self, data: st.DataObject) -> None:
        lease = self.drawn(data, *LIVING, "draining", "quarantined")
        if lease is not None and lease.agent_name is not None:
            self.servers[lease.agent_name].serves(lease.id, lease.epoch, self.true)

    @rule(rounds=st.sampled_from([1, 2, 13]))
    def all_goes_well_for_a_while(self, rounds: int) -> None:
        """Kernels use their slices, keepers renew, who waits asks, servers report, and time passes."""
        for _ in range(rounds):
            for lease in sorted(self.now_in(*SERVED), key=lambda lease: (lease.epoch, lease.turn)):
                self.servers[lease.agent_name or ""].serves(lease.id, lease.epoch, self.true)
            for user in sorted(USERS):
                self.a_keeper_renews(user, "now")
            self.who_waits_goes_on_waiting()
            for server in self.servers.values():
                server.buries()
            self.time_passes(1, True)

    # --- time

    def let_pass(self, seconds: float) -> None:
        self.true += seconds
        self.clock += round(seconds * 1000)
        for server in self.servers.values():
            server.time_passes(self.true)

    @rule(rounds=st.sampled_from([1, 1, 2, 4, 13]), report=st.booleans())
    def time_passes(self, rounds: int, report: bool) -> None:
        for _ in range(rounds):
            self.let_pass(ROUND)
            if report:
                self.all_servers_report()
            self.try_to(sweep)
