"""The tables of a SQL store: one for each row class, a column for each field, and what must never be false.

The columns are made from ``rows`` (so they cannot differ from it); the constraints stand here. They hold on
SQLite and PostgreSQL alike, whatever the code does: a GPU's use lies between 0 and what it has, a user's
key names one living lease, a slot holds one lease in each place. Foreign keys are checked at the commit, so
rows may be written in any order. Accounts of what was used (``slices``) outlive their leases, and seats
outlive what sat on them, so neither refers to leases.

Text is compared byte by byte on both databases (PostgreSQL's collation "C"), as Python does.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Union, get_args, get_origin, get_type_hints

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TextClause,
    UniqueConstraint,
    text,
)
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from gpu_kernels.pool.ledger.state.rows import TABLES, Row
from gpu_kernels.pool.ledger.state.states import FINAL, HOLDING, LIVE
from gpu_kernels.units import Size

NAMING = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}
METADATA = MetaData(naming_convention=NAMING)

TEXT = Text().with_variant(Text(collation="C"), "postgresql")
WHOLE = BigInteger()
ROW_ID = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite keeps a table in the order of an INTEGER primary key, and of no other type."""


def _quoted(states: frozenset[Any]) -> str:
    return ", ".join(f"'{state}'" for state in sorted(states))


def _refers(column: str, to: str) -> ForeignKeyConstraint:
    return ForeignKeyConstraint([column], [to], deferrable=True, initially="DEFERRED")


def _hashes(column: str) -> list[TextClause]:
    """An index of PostgreSQL takes no more than 2.7 kB a row, and a path may have 4 kB: 128 bits of it are
    indexed, in which two differ but by design; and who did that has only slots of their own to lose.
    """
    return [text(f"hashtextextended({column}, {seed})") for seed in (0, 1)]


def _unique_on_postgresql(name: str, *columns: str | TextClause) -> Index:
    index = Index(name, *columns, unique=True)
    return index.ddl_if(dialect="postgresql")


RULES: Mapping[str, tuple[SchemaItem, ...]] = {
    "agents": (
        CheckConstraint("0 <= reported_seq AND reported_seq <= target_seq", name="reported"),
        CheckConstraint("epoch >= 0", name="epoch"),
        CheckConstraint("standing IN ('open', 'cordoned', 'draining')", name="standing"),
        CheckConstraint("fences_after > 0", name="fences"),
    ),
    "agent_tokens": (CheckConstraint("length(sha256) = 64", name="digest"),),
    "gpus": (
        _refers("agent_name", "agents.name"),
        UniqueConstraint("agent_name", "uuid"),
        CheckConstraint("0 <= used_mib AND used_mib <= allocatable_mib", name="memory"),
        CheckConstraint("0 <= used_thousandths AND used_thousandths <= 1000", name="share"),
        CheckConstraint("0 < offered_mib AND offered_mib <= total_mib", name="offer"),
    ),
    "accounts": (
        _refers("parent", "accounts.name"),
        CheckConstraint("parent <> name", name="parent"),
        CheckConstraint("weight > 0", name="weight"),
    ),
    "taught_rules": (_refers("account", "accounts.name"),),
    "quotas": (
        _refers("account", "accounts.name"),
        CheckConstraint("nominal >= 0", name="nominal"),
        CheckConstraint("borrowing_limit >= 0", name="borrowing"),
        CheckConstraint("lending_limit >= 0", name="lending"),
        CheckConstraint("hard_limit >= 0", name="hard"),
    ),
    "shares": (CheckConstraint("usage >= 0", name="usage"),),
    "class_hours": (
        CheckConstraint("seats > 0", name="seats"),
        CheckConstraint("minutes > 0", name="minutes"),
        CheckConstraint("lead_minutes >= 0 AND late_minutes >= 0", name="margins"),
        CheckConstraint("first_date <= last_date", name="dates"),
    ),
    "windows": (
        _refers("class_hour", "class_hours.id"),
        Index("ix_windows_ends_at", "ends_at"),
        CheckConstraint("lead_at <= starts_at AND starts_at < ends_at", name="times"),
        CheckConstraint("state IN ('planned', 'open', 'over', 'cancelled')", name="state"),
        CheckConstraint("short >= 0", name="short"),
    ),
    "seats": (
        _refers("window", "windows.id"),
        _refers("gpu_id", "gpus.id"),
        CheckConstraint("mib > 0", name="memory"),
        CheckConstraint("0 < thousandths AND thousandths <= 1000", name="share"),
        CheckConstraint("state IN ('planned', 'held', 'taken', 'returned')", name="state"),
        CheckConstraint("state <> 'taken' OR lease_id IS NOT NULL", name="taken"),
    ),
    "leases": (
        _refers("agent_name", "agents.name"),
        UniqueConstraint("user", "live_key").ddl_if(dialect="sqlite"),
        UniqueConstraint("user", "server", "path", "place", name="uq_leases_slot").ddl_if(dialect="sqlite"),
        _unique_on_postgresql("ux_leases_key", "user", *_hashes("live_key")),
        _unique_on_postgresql("ux_leases_slot", "user", "server", *_hashes("path"), "place"),
        Index("ix_leases_ended_at", "ended_at"),
        Index("ix_leases_created_at", "created_at", "id"),
        Index("ix_leases_user_created", "user", "created_at", "id"),
        Index("ix_leases_course_created", "course", "created_at", "id"),
        CheckConstraint(f"state IN ({_quoted(LIVE | HOLDING | FINAL)})", name="state"),
        CheckConstraint("place IN ('waiting', 'current', 'replaced')", name="places"),
        CheckConstraint(f"(state IN ({_quoted(LIVE)})) = (place IS NOT NULL)", name="place"),
        CheckConstraint("(state = 'queued') = (COALESCE(place, '') = 'waiting')", name="waiting"),
        CheckConstraint("live_key IS NULL OR place IS NOT NULL", name="key"),
        CheckConstraint(f"(state IN ({_quoted(FINAL)})) = (ended_at IS NOT NULL)", name="ended"),
        CheckConstraint(f"state NOT IN ({_quoted(HOLDING)}) OR agent_name IS NOT NULL", name="agent"),
        CheckConstraint("thousandths >= 0", name="share"),
    ),
    "slices": (
        _refers("gpu_id", "gpus.id"),
        Index("ix_slices_open", "gpu_id", sqlite_where=text("ended_at IS NULL"),
              postgresql_where=text("ended_at IS NULL")),
        Index("ix_slices_started_at", "started_at", "lease_id", "gpu_id"),
        Index("ix_slices_user_started", "user", "started_at", "lease_id", "gpu_id"),
        Index("ix_slices_course_started", "course", "started_at", "lease_id", "gpu_id"),
        CheckConstraint("mib > 0", name="memory"),
        CheckConstraint("0 < thousandths AND thousandths <= 1000", name="share"),
    ),
    "events": (
        Index("ix_events_at", "at"),
        Index("ix_events_subject", "subject", "id"),
        Index("ix_events_kind", "kind", "id"),
    ),
}  # fmt: skip
"""By table: what must hold besides the keys, and the indexes that the history's readers use."""

OPTIONS: Mapping[str, Mapping[str, Any]] = {"leases": {"postgresql_with": {"fillfactor": 70}}}
"""Room in each page for the next form of its leases: a renewal then touches no index."""


def _without_none(hint: Any) -> tuple[Any, bool]:
    """A field's type without None, and whether None was one of them."""
    if get_origin(hint) in (types.UnionType, Union):
        (kind,) = (part for part in get_args(hint) if part is not types.NoneType)
        return kind, True
    return hint, False


def is_json(hint: Any) -> bool:
    """Whether a field of this type is kept as JSON."""
    return get_origin(_without_none(hint)[0]) in (Mapping, tuple)


def _column_type(row: type[Row], name: str, hint: Any) -> TypeEngine[Any]:
    kind, _ = _without_none(hint)
    if is_json(kind):
        return JSON()
    if kind is int:
        return ROW_ID if (name,) == row.KEY else WHOLE
    plain: Mapping[Any, TypeEngine[Any]] = {str: TEXT, Size: TEXT, bool: Boolean(), float: Double()}
    return plain[kind]


def _table(row: type[Row]) -> Table:
    hints = get_type_hints(row)
    columns = [
        Column(
            field.name,
            _column_type(row, field.name, hints[field.name]),
            primary_key=field.name in row.KEY,
            nullable=_without_none(hints[field.name])[1],
            autoincrement=False,
        )
        for field in fields(row)
    ]
    return Table(row.TABLE, METADATA, *columns, *RULES.get(row.TABLE, ()), **OPTIONS.get(row.TABLE, {}))


BY_ROW: Mapping[type[Row], Table] = {row: _table(row) for row in TABLES}

LEADERSHIP = Table(
    "leadership",
    METADATA,
    Column("id", ROW_ID, primary_key=True, autoincrement=False),
    Column("term", WHOLE, nullable=False),
    Column("incarnation", TEXT, nullable=False),
    Column("holder", TEXT, nullable=False),
    Column("address", TEXT, nullable=False),
    Column("key_print", TEXT, nullable=False),
    Column("renewed_at", WHOLE, nullable=False),
    CheckConstraint("id = 1", name="single"),
)
"""One row: who is the active controller, see ``term``."""
