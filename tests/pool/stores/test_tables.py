"""The tables are the rows, and what must never be false the database itself refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

import pytest
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from gpu_kernels.pool.ledger.state.rows import TABLES, Row
from gpu_kernels.pool.ledger.stores.sql import SqlStore
from gpu_kernels.pool.ledger.stores.tables import BY_ROW, METADATA
from tests.pool.stores.examples import GPU, ONE_OF_EACH, ended, granted, lease, part, write


@pytest.mark.parametrize("row", TABLES, ids=lambda row: str(row.TABLE))
def test_columns_are_fields(row: type[Row]) -> None:
    table = BY_ROW[row]
    assert table.name == row.TABLE
    assert list(table.columns.keys()) == [field.name for field in fields(row)]
    assert tuple(column.name for column in table.primary_key) == row.KEY


@pytest.mark.parametrize("table", METADATA.sorted_tables, ids=str)
def test_nothing_newer_than_postgresql_13_is_used(table: object) -> None:
    made = str(CreateTable(table).compile(dialect=postgresql.dialect()))  # type: ignore[arg-type]
    assert not any(word in made for word in ("NULLS NOT DISTINCT", "GENERATED", "JSONB"))


NEVER = [
    "UPDATE gpus SET used_mib = allocatable_mib + 1",
    "UPDATE gpus SET allocatable_mib = -1",
    "UPDATE gpus SET used_mib = -1",
    "UPDATE gpus SET used_thousandths = 1001",
    "UPDATE gpus SET used_thousandths = -1",
    "UPDATE gpus SET offered_mib = total_mib + 1",
    "UPDATE gpus SET agent_name = 'nobody'",
    "UPDATE gpus SET uuid = 'same'",
    "UPDATE agents SET reported_seq = target_seq + 1",
    "UPDATE agents SET standing = 'gone'",
    "UPDATE agents SET fences_after = 0",
    "UPDATE accounts SET parent = name",
    "UPDATE accounts SET parent = 'nobody'",
    "UPDATE accounts SET weight = 0",
    "UPDATE quotas SET hard_limit = -1",
    "UPDATE quotas SET nominal = -1",
    "UPDATE quotas SET account = 'nobody'",
    "UPDATE shares SET usage = -1",
    "UPDATE class_hours SET seats = 0",
    "UPDATE class_hours SET last_date = '2000-01-01'",
    "UPDATE windows SET ends_at = starts_at",
    "UPDATE windows SET state = 'closed'",
    "UPDATE seats SET thousandths = 0",
    "UPDATE seats SET state = 'taken'",
    "UPDATE seats SET gpu_id = 77",
    "UPDATE leases SET place = NULL WHERE id = 'l1'",
    "UPDATE leases SET place = 'current' WHERE id = 'waits'",
    "UPDATE leases SET place = 'first' WHERE id = 'l1'",
    "UPDATE leases SET state = 'gone' WHERE id = 'l1'",
    "UPDATE leases SET state = 'freed' WHERE id = 'l1'",
    "UPDATE leases SET ended_at = NULL WHERE id = 'over'",
    "UPDATE leases SET live_key = 'x' WHERE id = 'over'",
    "UPDATE leases SET agent_name = NULL WHERE id = 'l1'",
    "UPDATE leases SET agent_name = 'nobody' WHERE id = 'l1'",
    "UPDATE leases SET live_key = 'same' WHERE id IN ('l1', 'waits')",
    "UPDATE leases SET path = 'same' WHERE place = 'current'",
    "UPDATE leases SET thousandths = -1",
    "INSERT INTO leases SELECT * FROM leases WHERE id = 'l1'",
    "UPDATE slices SET mib = 0",
    "UPDATE slices SET thousandths = 1001",
    "UPDATE slices SET gpu_id = 77",
    "DELETE FROM gpus",
    "DELETE FROM agents",
    "DELETE FROM accounts WHERE name = 'institution'",
    "INSERT INTO leadership VALUES (2, 1, '', '', '', '', 0)",
]


@pytest.fixture
def written(sql_store: SqlStore) -> Iterator[SqlStore]:
    second = granted("l2")
    gpu = replace(GPU, id=2, uuid="GPU-2")
    write(sql_store, *ONE_OF_EACH, gpu, second, part("l2"), lease("waits"), ended("over"))
    before = {row: sql_store.every(row) for row in TABLES}
    yield sql_store
    assert {row: sql_store.every(row) for row in TABLES} == before


def test_what_must_never_be_is_refused_by_the_database_itself(written: SqlStore) -> None:
    """All in one test: a database for each statement would take minutes."""
    accepted = []
    for statement in NEVER:
        written.begin()
        try:
            written._connected().execute(statement)
            written.commit()
            accepted.append(statement)
        except written._database.errors:
            written.rollback()
    assert accepted == []
