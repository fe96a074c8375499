"""The machine on each store, with the same examples each time; ``MACHINE_EXAMPLES=N`` runs so many
new ones.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.pool.machine.machine import PoolMachine
from tests.pool.machine.stores import Clock, InMemory, InSql, Kept, in_sqlite
from tests.pool.stores.postgresql import Server

STEPS = 40


def run(machine: type[PoolMachine], examples: int, *, more: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=more or examples,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=not more,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture
def more() -> int:
    return int(os.environ.get("MACHINE_EXAMPLES", "0"))


def test_in_memory(more: int) -> None:
    class Machine(PoolMachine):
        keep = staticmethod(InMemory)

    run(Machine, 60, more=more)


def test_in_sqlite(more: int) -> None:
    class Machine(PoolMachine):
        keep = staticmethod(in_sqlite)

    run(Machine, 8, more=more)


def test_in_postgresql(more: int, postgresql_server: Server) -> None:
    def in_postgresql(clock: Clock) -> Kept:
        url = postgresql_server.new_database()
        return InSql(url, clock, lambda: postgresql_server.drop_database(url))

    class Machine(PoolMachine):
        keep = staticmethod(in_postgresql)

    run(Machine, 6, more=more)
