"""What the machine holds against the ledger after each step, and at its end."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

from benchmarks.simulation.invariants import (
    FINAL,
    HOLDING,
    SERVED,
    Tables,
    check_books,
    check_epochs,
    check_gpus,
    check_quotas,
    check_seats,
    check_slots,
    check_states,
)
from benchmarks.simulation.server import MIB
from gpu_kernels.pool.ledger import Timing
from gpu_kernels.pool.ledger.commands import quotas, release, servers
from gpu_kernels.pool.ledger.commands.class_hours import bookings
from gpu_kernels.pool.ledger.commands.sweep import sweep
from gpu_kernels.pool.ledger.commands.termination import NOT_RENEWED
from gpu_kernels.pool.ledger.queries import agent_views, audit
from gpu_kernels.pool.ledger.state.rows import TABLES, Event

TTL = 60_000
ROUND = 5.0
"""Seconds between two sweeps of a controller that runs."""
TIMING = Timing(
    lease_ttl=TTL, agent_ttl=30_000, queue_ttl=45_000, swap_rest=10 * TTL, remember_ended=20 * TTL
)
USERS = {"ada": "ml101", "bob": "ml101", "eve": "cv202"}
SIZES = ["0.02 V100", "0.5 V100", "0.5 V100", "1 V100", "2 V100", "8192 MiB", "0.25 GPU", "1 A100"]
SERVERS = {
    "one": ("V100", 2, 60.0),
    "two": ("V100", 1, 0.0),
    "three": ("A100", 1, 60.0),
}
ALL_ACCOUNTS = ["ml101", "cv202", "faculty", "school"]

users = st.sampled_from(sorted(USERS))
names = st.sampled_from(sorted(SERVERS))
late = st.sampled_from(["now", "now", "now", "later", "twice", "lost"])


class Unknown(Exception):
    """Nobody was answered: what was asked may have been done or not."""


class Checked(RuleBasedStateMachine):
    """The invariants, and the promise that everything ends. The rules are ``machine.PoolMachine``'s."""

    @invariant()
    def everything_that_must_hold_does(self) -> None:
        if not hasattr(self, "ledger"):
            return
        self.before, self.tables = self.checked, Tables.of(self.committed())
        self.checked = self.tables
        check_gpus(self.tables)
        check_slots(self.tables)
        check_epochs(self.tables, self.before)
        check_states(self.tables, self.before)
        check_quotas(self.tables, self.before)
        check_seats(self.tables, self.clock)
        self.check_use()
        self.check_what_agents_are_told()
        self.check_nobody_lost_what_was_renewed()

    def committed(self) -> list[Any]:
        """All rows; and the book must be as they are."""
        found = self.look(audit.differences)
        # What agents run is compared with the truth in ``check_use``: a late report tells of the past.
        assert [text for text in found if not text.startswith("agent ")] == []
        rows = self.kept.rows()
        book = {kind.TABLE: getattr(self.ledger.book, kind.TABLE) for kind in TABLES if kind is not Event}
        check_books(book, rows)
        return rows

    def check_use(self) -> None:
        """Whatever lives on a server is counted in the ledger, and fits."""
        for server in self.servers.values():
            used: dict[str, int] = {}
            for worker, part in server.in_use():
                lease = self.tables.leases.get(worker.lease)
                assert lease is not None
                assert lease.state in HOLDING, f"{worker} lives, and its lease is {lease.state}"
                used[part.gpu] = used.get(part.gpu, 0) + part.mib
            assert all(mib <= MIB[server.gpu_class] for mib in used.values())

    def check_what_agents_are_told(self) -> None:
        """Exactly what is in force, with the epoch that it has."""
        for name in self.tables.agents:
            _, targets = self.look(partial(agent_views.agent_target, name=name))
            served = [lease for lease in self.tables.leases.values() if lease.state in SERVED]
            assert sorted((target.id, target.epoch) for target in targets) == sorted(
                (lease.id, lease.epoch) for lease in served if lease.agent_name == name
            )

    def check_nobody_lost_what_was_renewed(self) -> None:
        for lease in self.tables.leases.values():
            old = self.before.leases.get(lease.id)
            if lease.reason == NOT_RENEWED and (old is None or old.reason != NOT_RENEWED):
                until = self.good_until.get(lease.id, 0.0)
                assert self.true >= until - 0.002, f"{lease.id} was good for {until - self.true} s more"

    def teardown(self) -> None:
        """Nothing leaks: when all clients are gone and all servers speak, the pool is empty."""
        try:
            if hasattr(self, "ledger"):
                self.everything_ends()
        finally:
            self.kept.close()

    def everybody_is_served(self) -> None:
        """Nobody waits for ever: with all servers there, room in the quotas, and leases that are given back,
        whoever goes on waiting gets what was asked for.
        """
        self.store.heal()
        self.mail.clear()
        for name in sorted(self.tables.agents):
            self.ask(partial(servers.set_standing, name=name, standing="open", actor="root"))
        for account in ALL_ACCOUNTS:
            for gpu_class in ("V100", "A100"):
                self.ask(partial(quotas.drop_quota, name=account, gpu_class=gpu_class, actor="root"))
        for course in ("ml101", "cv202"):
            limit = {"V100": 2500, "A100": 1000}
            self.ask(partial(quotas.set_limit, name=course, limit=limit, actor="root", create=False))
        for class_hour in sorted(self.tables.class_hours):
            self.ask(partial(bookings.cancel, class_hour=class_hour, actor="grace"))
        waited = {lease.id for lease in self.now_in("queued")}
        for _ in range(30):
            self.let_pass(ROUND)
            for server in self.servers.values():
                server.paused = False
                server.buries()
            for _ in range(2):
                self.all_servers_report()
            self.who_waits_goes_on_waiting()
            self.ask(sweep)
            for lease in self.now_in(*SERVED):
                self.ask(partial(release.release, user=lease.user, lease_id=lease.id, holder=lease.holder))
        queued = [lease for lease in self.now_in("queued") if lease.id in waited]
        assert queued == [], f"these wait for ever: {queued}"
        gave_up = [lease for lease in self.now_in("expired") if lease.id in waited]
        assert all(lease.give_up_at <= self.clock for lease in gave_up), f"these were not served: {gave_up}"

    def everything_ends(self) -> None:
        self.everybody_is_served()
        for _ in range(16):
            self.let_pass(ROUND)
            self.ask(sweep)
            for server in self.servers.values():
                server.paused = False
                server.buries()
            self.all_servers_report()
        for _ in range(3):
            for server in self.servers.values():
                server.buries()
            self.all_servers_report()
        self.everything_that_must_hold_does()
        left = [lease for lease in self.tables.leases.values() if lease.state not in FINAL]
        assert left == [], f"these never end: {left}"
        assert [(gpu.used_mib, gpu.used_thousandths) for gpu in self.tables.gpus.values()] == [(0, 0)] * len(
            self.tables.gpus
        )
        assert all(part.ended_at is not None for part in self.tables.slices)
