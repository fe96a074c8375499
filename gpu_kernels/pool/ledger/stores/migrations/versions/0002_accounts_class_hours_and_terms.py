"""Accounts in a tree, class hours, servers that drain, terms; use and accounts of a slice become one row

The old tables are set aside by name and content, dropped, and read into the new ones, so that no constraint
meets half of a change. Going down, what the old schema has no word for is left out: the tree but for its
courses' hard limits, shares, class hours, the group properties, the term.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NEW = sa.MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def text(name: str, **options: Any) -> sa.Column[str]:
    kind = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    return sa.Column(name, kind, **{"nullable": False, **options})


def whole(name: str, **options: Any) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, **{"nullable": False, **options})


def row_id(name: str, **options: Any) -> sa.Column[int]:
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column(name, kind, autoincrement=False, **{"nullable": False, **options})


def real(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=False)


def flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean(), nullable=False)


def json(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.JSON(), nullable=False)


def refers(column: str, to: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [to], deferrable=True, initially="DEFERRED")


def define_tables() -> None:
    sa.Table(
        "agents",
        NEW,
        text("name", primary_key=True),
        text("owner"),
        text("boot_id"),
        text("address"),
        text("version"),
        whole("epoch"),
        whole("target_seq"),
        whole("reported_seq"),
        text("counts_by"),
        whole("registered_at"),
        whole("reported_at"),
        text("standing"),
        whole("drain_by", nullable=True),
        whole("ends_at", nullable=True),
        whole("fences_after", nullable=True),
        sa.CheckConstraint("0 <= reported_seq AND reported_seq <= target_seq", name="reported"),
        sa.CheckConstraint("epoch >= 0", name="epoch"),
        sa.CheckConstraint("standing IN ('open', 'cordoned', 'draining')", name="standing"),
        sa.CheckConstraint("fences_after > 0", name="fences"),
    )
    sa.Table(
        "gpus",
        NEW,
        row_id("id", primary_key=True),
        text("agent_name"),
        text("uuid"),
        whole("index"),
        text("gpu_class"),
        text("device"),
        text("name"),
        whole("total_mib"),
        flag("offered"),
        text("offered_class"),
        whole("offered_mib"),
        whole("allocatable_mib"),
        whole("used_mib"),
        whole("used_thousandths"),
        refers("agent_name", "agents.name"),
        sa.UniqueConstraint("agent_name", "uuid"),
        sa.CheckConstraint("0 <= used_mib AND used_mib <= allocatable_mib", name="memory"),
        sa.CheckConstraint("0 <= used_thousandths AND used_thousandths <= 1000", name="share"),
        sa.CheckConstraint("0 < offered_mib AND offered_mib <= total_mib", name="offer"),
    )
    sa.Table(
        "accounts",
        NEW,
        text("name", primary_key=True),
        text("kind"),
        text("parent", nullable=True),
        real("weight"),
        json("rules"),
        whole("created_at"),
        refers("parent", "accounts.name"),
        sa.CheckConstraint("parent <> name", name="parent"),
        sa.CheckConstraint("weight > 0", name="weight"),
    )
    sa.Table(
        "quotas",
        NEW,
        text("account", primary_key=True),
        text("gpu_class", primary_key=True),
        whole("nominal"),
        whole("borrowing_limit", nullable=True),
        whole("lending_limit", nullable=True),
        whole("hard_limit", nullable=True),
        refers("account", "accounts.name"),
        sa.CheckConstraint("nominal >= 0", name="nominal"),
        sa.CheckConstraint("borrowing_limit >= 0", name="borrowing"),
        sa.CheckConstraint("lending_limit >= 0", name="lending"),
        sa.CheckConstraint("hard_limit >= 0", name="hard"),
    )
    sa.Table(
        "shares",
        NEW,
        text("account", primary_key=True),
        text("user", primary_key=True),
        text("gpu_class", primary_key=True),
        real("usage"),
        whole("at"),
        sa.CheckConstraint("usage >= 0", name="usage"),
    )
    sa.Table(
        "group_properties",
        NEW,
        text("group", primary_key=True),
        text("name", primary_key=True),
        text("value"),
        text("fault", nullable=True),
        text("faulty_value", nullable=True),
        whole("at"),
    )
    sa.Table(
        "class_hours",
        NEW,
        text("id", primary_key=True),
        text("course"),
        text("size"),
        whole("seats"),
        text("weekdays"),
        text("start"),
        whole("minutes"),
        text("time_zone"),
        text("first_date"),
        text("last_date"),
        json("except_dates"),
        whole("lead_minutes"),
        whole("late_minutes"),
        text("created_by"),
        whole("created_at"),
        whole("cancelled_at", nullable=True),
        sa.CheckConstraint("seats > 0", name="seats"),
        sa.CheckConstraint("minutes > 0", name="minutes"),
        sa.CheckConstraint("lead_minutes >= 0 AND late_minutes >= 0", name="margins"),
        sa.CheckConstraint("first_date <= last_date", name="dates"),
    )
    sa.Table(
        "windows",
        NEW,
        text("id", primary_key=True),
        text("class_hour"),
        text("course"),
        whole("starts_at"),
        whole("ends_at"),
        whole("lead_at"),
        whole("late_at"),
        text("state"),
        whole("short"),
        refers("class_hour", "class_hours.id"),
        sa.CheckConstraint("lead_at <= starts_at AND starts_at < ends_at", name="times"),
        sa.CheckConstraint("state IN ('planned', 'open', 'over', 'cancelled')", name="state"),
        sa.CheckConstraint("short >= 0", name="short"),
        sa.Index("ix_windows_ends_at", "ends_at"),
    )
    sa.Table(
        "seats",
        NEW,
        text("window", primary_key=True),
        whole("number", primary_key=True),
        whole("gpu_id"),
        whole("mib"),
        whole("thousandths"),
        text("state"),
        text("lease_id", nullable=True),
        refers("window", "windows.id"),
        refers("gpu_id", "gpus.id"),
        sa.CheckConstraint("mib > 0", name="memory"),
        sa.CheckConstraint("0 < thousandths AND thousandths <= 1000", name="share"),
        sa.CheckConstraint("state IN ('planned', 'held', 'taken', 'returned')", name="state"),
        sa.CheckConstraint("state <> 'taken' OR lease_id IS NOT NULL", name="taken"),
    )
    sa.Table(
        "leases",
        NEW,
        text("id", primary_key=True),
        text("state"),
        text("reason", nullable=True),
        text("user"),
        text("course"),
        text("size"),
        text("key"),
        text("live_key", nullable=True),
        text("body_hash"),
        text("server"),
        text("path"),
        text("place", nullable=True),
        text("holder"),
        json("labels"),
        whole("turn"),
        whole("created_at"),
        whole("asked_at"),
        whole("give_up_at"),
        whole("promised_at", nullable=True),
        whole("granted_at", nullable=True),
        whole("active_at", nullable=True),
        whole("busy_at", nullable=True),
        whole("expires_at", nullable=True),
        whole("ends_at", nullable=True),
        whole("preempt_at", nullable=True),
        flag("preemptible"),
        whole("replaced_at", nullable=True),
        whole("ended_at", nullable=True),
        text("window", nullable=True),
        text("agent_name", nullable=True),
        whole("epoch"),
        whole("start_seq", nullable=True),
        whole("end_seq", nullable=True),
        text("gpu_class", nullable=True),
        text("device", nullable=True),
        whole("thousandths"),
        whole("used_mib"),
        whole("peak_mib"),
        whole("sessions"),
        whole("launches"),
        refers("agent_name", "agents.name"),
        sa.UniqueConstraint("user", "live_key").ddl_if(dialect="sqlite"),
        sa.UniqueConstraint("user", "server", "path", "place", name="uq_leases_slot").ddl_if(
            dialect="sqlite"
        ),
        sa.CheckConstraint(
            "state IN ('active', 'draining', 'expired', 'freed', 'quarantined', 'queued', 'released',"
            " 'reserved', 'revoked')",
            name="state",
        ),
        sa.CheckConstraint("place IN ('waiting', 'current', 'replaced')", name="places"),
        sa.CheckConstraint("(state IN ('active', 'queued', 'reserved')) = (place IS NOT NULL)", name="place"),
        sa.CheckConstraint("(state = 'queued') = (COALESCE(place, '') = 'waiting')", name="waiting"),
        sa.CheckConstraint("live_key IS NULL OR place IS NOT NULL", name="key"),
        sa.CheckConstraint(
            "(state IN ('expired', 'freed', 'released', 'revoked')) = (ended_at IS NOT NULL)", name="ended"
        ),
        sa.CheckConstraint(
            "state NOT IN ('active', 'draining', 'quarantined', 'reserved') OR agent_name IS NOT NULL",
            name="agent",
        ),
        sa.CheckConstraint("thousandths >= 0", name="share"),
        sa.Index("ix_leases_course_created", "course", "created_at", "id"),
        sa.Index("ix_leases_created_at", "created_at", "id"),
        sa.Index("ix_leases_ended_at", "ended_at"),
        sa.Index("ix_leases_user_created", "user", "created_at", "id"),
        sa.Index(
            "ux_leases_key",
            "user",
            sa.text("hashtextextended(live_key, 0)"),
            sa.text("hashtextextended(live_key, 1)"),
            unique=True,
        ).ddl_if(dialect="postgresql"),
        sa.Index(
            "ux_leases_slot",
            "user",
            "server",
            sa.text("hashtextextended(path, 0)"),
            sa.text("hashtextextended(path, 1)"),
            "place",
            unique=True,
        ).ddl_if(dialect="postgresql"),
        postgresql_with={"fillfactor": 70},
    )
    sa.Table(
        "slices",
        NEW,
        text("lease_id", primary_key=True),
        whole("gpu_id", primary_key=True),
        text("gpu_uuid"),
        text("gpu_class"),
        text("user"),
        text("course"),
        whole("mib"),
        whole("thousandths"),
        whole("started_at"),
        whole("active_at", nullable=True),
        whole("ended_at", nullable=True),
        refers("gpu_id", "gpus.id"),
        sa.CheckConstraint("mib > 0", name="memory"),
        sa.CheckConstraint("0 < thousandths AND thousandths <= 1000", name="share"),
        sa.Index("ix_slices_course_started", "course", "started_at", "lease_id", "gpu_id"),
        sa.Index(
            "ix_slices_open",
            "gpu_id",
            sqlite_where=sa.text("ended_at IS NULL"),
            postgresql_where=sa.text("ended_at IS NULL"),
        ),
        sa.Index("ix_slices_started_at", "started_at", "lease_id", "gpu_id"),
        sa.Index("ix_slices_user_started", "user", "started_at", "lease_id", "gpu_id"),
    )
    sa.Table(
        "events",
        NEW,
        row_id("id", primary_key=True),
        whole("at"),
        text("actor"),
        text("kind"),
        text("subject"),
        json("detail"),
        sa.Index("ix_events_at", "at"),
        sa.Index("ix_events_kind", "kind", "id"),
        sa.Index("ix_events_subject", "subject", "id"),
    )
    sa.Table(
        "leadership",
        NEW,
        row_id("id", primary_key=True),
        whole("term"),
        text("incarnation"),
        text("holder"),
        text("address"),
        text("key_print"),
        whole("renewed_at"),
        sa.CheckConstraint("id = 1", name="single"),
    )


define_tables()

OLD_TABLES = ("lease_slices", "leases", "usage", "events", "course_limits", "courses", "gpus", "agents")
NEW_TABLES = (
    "seats", "windows", "class_hours", "slices", "leases", "events", "shares", "quotas", "accounts", "gpus",
    "agents", "group_properties", "leadership",
)  # fmt: skip
"""In an order in which none is referred to any more when it is dropped."""

AGENT = "name, owner, boot_id, address, version, epoch, target_seq, reported_seq, registered_at, reported_at"
GPU = (
    'id, agent_name, uuid, "index", gpu_class, device, name, total_mib, offered, offered_class, offered_mib, '
    "allocatable_mib, used_mib, used_thousandths"
)
LEASE = (
    'id, state, reason, "user", course, size, key, live_key, body_hash, server, path, place, holder, labels, '
    "turn, created_at, asked_at, give_up_at, granted_at, expires_at, replaced_at, ended_at, agent_name, "
    "epoch, end_seq, gpu_class, device, thousandths, used_mib, peak_mib, sessions, launches"
)
EVENT = "id, at, actor, kind, subject, detail"

UP = (
    f"INSERT INTO agents ({AGENT}, counts_by, standing) SELECT {AGENT}, '', 'open' FROM aside_agents",
    f"INSERT INTO gpus ({GPU}) SELECT {GPU} FROM aside_gpus",
    # The courses of a flat pool belong to its institution, which had no row. Their names are other ones.
    """
    INSERT INTO accounts (name, kind, parent, weight, rules, created_at)
    SELECT CASE WHEN EXISTS (SELECT 1 FROM aside_courses WHERE name = 'institution') THEN 'the institution'
           ELSE 'institution' END, 'institution', NULL, 1.0, '{}', MIN(created_at)
    FROM aside_courses HAVING COUNT(*) > 0
    """,
    """
    INSERT INTO accounts (name, kind, parent, weight, rules, created_at)
    SELECT name, 'course', (SELECT name FROM accounts WHERE kind = 'institution'), 1.0, '{}', created_at
    FROM aside_courses
    """,
    """
    INSERT INTO quotas (account, gpu_class, nominal, borrowing_limit, lending_limit, hard_limit)
    SELECT course, gpu_class, 0, NULL, NULL, thousandths FROM aside_course_limits
    """,
    # When a worker came up was not kept: a lease that is active now is taken to have been since its grant.
    f"""
    INSERT INTO leases ({LEASE}, preemptible, active_at)
    SELECT {LEASE}, false, CASE WHEN state = 'active' THEN granted_at END FROM aside_leases
    """,
    # What was used is paid for as it was accounted: from the start. An account names its GPU by its UUID; a
    # UUID that several agents have had is of the one that the lease ran on, where the lease is still known.
    """
    INSERT INTO slices (lease_id, gpu_id, gpu_uuid, gpu_class, "user", course, mib, thousandths, started_at,
                        active_at, ended_at)
    SELECT u.lease_id, g.id, u.gpu_uuid, u.gpu_class, u."user", u.course, u.mib, u.thousandths, u.started_at,
           u.started_at, u.ended_at
    FROM aside_usage AS u
    JOIN aside_gpus AS g ON g.id = COALESCE(
        (SELECT s.gpu_id FROM aside_lease_slices AS s JOIN aside_gpus AS o ON o.id = s.gpu_id
         WHERE s.lease_id = u.lease_id AND o.uuid = u.gpu_uuid),
        (SELECT MIN(o.id) FROM aside_gpus AS o WHERE o.uuid = u.gpu_uuid))
    """,
    f"INSERT INTO events ({EVENT}) SELECT {EVENT} FROM aside_events",
)
DOWN = (
    f"INSERT INTO agents ({AGENT}) SELECT {AGENT} FROM aside_agents",
    f"INSERT INTO gpus ({GPU}) SELECT {GPU} FROM aside_gpus",
    """
    INSERT INTO courses (name, created_at)
    SELECT name, created_at FROM aside_accounts WHERE kind = 'course'
    """,
    # Leases refer to their course, which may be gone since.
    """
    INSERT INTO courses (name, created_at)
    SELECT course, MIN(created_at) FROM aside_leases
    WHERE course NOT IN (SELECT name FROM courses) GROUP BY course
    """,
    """
    INSERT INTO course_limits (course, gpu_class, thousandths)
    SELECT account, gpu_class, hard_limit FROM aside_quotas
    WHERE hard_limit IS NOT NULL AND account IN (SELECT name FROM courses)
    """,
    f"INSERT INTO leases ({LEASE}) SELECT {LEASE} FROM aside_leases",
    """
    INSERT INTO lease_slices (lease_id, gpu_id, mib, thousandths)
    SELECT lease_id, gpu_id, mib, thousandths FROM aside_slices
    WHERE lease_id IN (SELECT id FROM aside_leases)
    """,
    """
    INSERT INTO "usage" (id, lease_id, "user", course, gpu_class, gpu_uuid, mib, thousandths, started_at,
                         ended_at)
    SELECT ROW_NUMBER() OVER (ORDER BY started_at, lease_id, gpu_id), lease_id, "user", course, gpu_class,
           gpu_uuid, mib, thousandths, started_at, ended_at
    FROM aside_slices
    """,
    f"INSERT INTO events ({EVENT}) SELECT {EVENT} FROM aside_events",
)


def upgrade() -> None:
    set_aside(OLD_TABLES)
    NEW.create_all(op.get_bind())
    fill(UP, OLD_TABLES)


def downgrade() -> None:
    set_aside(NEW_TABLES)
    op.get_context().script.get_revision(down_revision).module.upgrade()  # type: ignore[union-attr]
    fill(DOWN, NEW_TABLES)
    if op.get_bind().dialect.name == "postgresql":
        for table in ("events", "usage", "gpus"):  # the old code leaves these numbers to the database
            op.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), "
                f'(SELECT COALESCE(MAX(id), 0) + 1 FROM "{table}"), false)'
            )


def set_aside(tables: tuple[str, ...]) -> None:
    """Keep what the tables hold as ``aside_*``, without constraints, and drop them."""
    for table in tables:
        op.execute(f'CREATE TABLE aside_{table} AS SELECT * FROM "{table}"')
        op.execute(f'DROP TABLE "{table}"')


def fill(statements: tuple[str, ...], tables: tuple[str, ...]) -> None:
    """Read the new tables from what was set aside, and forget that."""
    for statement in statements:
        op.execute(statement)
    for table in tables:
        op.execute(f"DROP TABLE aside_{table}")
