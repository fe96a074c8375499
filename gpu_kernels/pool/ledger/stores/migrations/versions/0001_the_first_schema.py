"""The first schema"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "agents",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("boot_id", sa.String(length=64), nullable=False),
        sa.Column("address", sa.String(length=255), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("target_seq", sa.BigInteger(), nullable=False),
        sa.Column("reported_seq", sa.BigInteger(), nullable=False),
        sa.Column("registered_at", sa.BigInteger(), nullable=False),
        sa.Column("reported_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("reported_seq <= target_seq", name=op.f("ck_agents_reported")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_agents")),
    )
    op.create_table(
        "courses",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_courses")),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
    )
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_events_at"), ["at"], unique=False)
        batch_op.create_index(batch_op.f("ix_events_subject"), ["subject"], unique=False)

    op.create_table(
        "usage",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("lease_id", sa.String(length=40), nullable=False),
        sa.Column("user", sa.String(length=255), nullable=False),
        sa.Column("course", sa.String(length=255), nullable=False),
        sa.Column("gpu_class", sa.String(length=32), nullable=False),
        sa.Column("gpu_uuid", sa.String(length=96), nullable=False),
        sa.Column("mib", sa.BigInteger(), nullable=False),
        sa.Column("thousandths", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage")),
    )
    with op.batch_alter_table("usage", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_usage_course"), ["course"], unique=False)
        batch_op.create_index(batch_op.f("ix_usage_ended_at"), ["ended_at"], unique=False)
        batch_op.create_index(batch_op.f("ix_usage_lease_id"), ["lease_id"], unique=False)

    op.create_table(
        "course_limits",
        sa.Column("course", sa.String(length=255), nullable=False),
        sa.Column("gpu_class", sa.String(length=32), nullable=False),
        sa.Column("thousandths", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("thousandths >= 0", name=op.f("ck_course_limits_positive")),
        sa.ForeignKeyConstraint(["course"], ["courses.name"], name=op.f("fk_course_limits_course")),
        sa.PrimaryKeyConstraint("course", "gpu_class", name=op.f("pk_course_limits")),
    )
    op.create_table(
        "gpus",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("agent_name", sa.String(length=64), nullable=False),
        sa.Column("uuid", sa.String(length=96), nullable=False),
        sa.Column("index", sa.BigInteger(), nullable=False),
        sa.Column("gpu_class", sa.String(length=32), nullable=False),
        sa.Column("device", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("total_mib", sa.BigInteger(), nullable=False),
        sa.Column("offered", sa.Boolean(), nullable=False),
        sa.Column("offered_class", sa.String(length=32), nullable=False),
        sa.Column("offered_mib", sa.BigInteger(), nullable=False),
        sa.Column("allocatable_mib", sa.BigInteger(), nullable=False),
        sa.Column("used_mib", sa.BigInteger(), nullable=False),
        sa.Column("used_thousandths", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("0 < offered_mib AND offered_mib <= total_mib", name=op.f("ck_gpus_offer")),
        sa.CheckConstraint("0 <= used_mib AND used_mib <= allocatable_mib", name=op.f("ck_gpus_memory")),
        sa.CheckConstraint("0 <= used_thousandths AND used_thousandths <= 1000", name=op.f("ck_gpus_share")),
        sa.ForeignKeyConstraint(["agent_name"], ["agents.name"], name=op.f("fk_gpus_agent_name")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gpus")),
        sa.UniqueConstraint("agent_name", "uuid", name=op.f("uq_gpus_agent_name")),
    )
    with op.batch_alter_table("gpus", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_gpus_gpu_class"), ["gpu_class"], unique=False)

    op.create_table(
        "leases",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=500), nullable=True),
        sa.Column("user", sa.String(length=255), nullable=False),
        sa.Column("course", sa.String(length=255), nullable=False),
        sa.Column("size", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=512), nullable=False),
        sa.Column("live_key", sa.String(length=512), nullable=True),
        sa.Column("body_hash", sa.String(length=64), nullable=False),
        sa.Column("server", sa.String(length=255), nullable=False),
        sa.Column("path", sa.String(length=1024), nullable=False),
        sa.Column("place", sa.String(length=16), nullable=True),
        sa.Column("holder", sa.String(length=255), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("give_up_at", sa.BigInteger(), nullable=False),
        sa.Column("granted_at", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("replaced_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("agent_name", sa.String(length=64), nullable=True),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("end_seq", sa.BigInteger(), nullable=True),
        sa.Column("gpu_class", sa.String(length=32), nullable=True),
        sa.Column("device", sa.String(length=16), nullable=True),
        sa.Column("thousandths", sa.BigInteger(), nullable=False),
        sa.Column("used_mib", sa.BigInteger(), nullable=False),
        sa.Column("peak_mib", sa.BigInteger(), nullable=False),
        sa.Column("sessions", sa.BigInteger(), nullable=False),
        sa.Column("launches", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "(state IN ('queued', 'reserved', 'active')) = (place IS NOT NULL)", name=op.f("ck_leases_place")
        ),
        sa.ForeignKeyConstraint(["agent_name"], ["agents.name"], name=op.f("fk_leases_agent_name")),
        sa.ForeignKeyConstraint(["course"], ["courses.name"], name=op.f("fk_leases_course")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leases")),
        sa.UniqueConstraint("user", "live_key", name=op.f("uq_leases_user")),
        sa.UniqueConstraint("user", "server", "path", "place", name="uq_leases_slot"),
    )
    with op.batch_alter_table("leases", schema=None) as batch_op:
        batch_op.create_index("ix_leases_agent_state", ["agent_name", "state"], unique=False)
        batch_op.create_index("ix_leases_course_state", ["course", "state"], unique=False)
        batch_op.create_index("ix_leases_state_expires", ["state", "expires_at"], unique=False)
        batch_op.create_index("ix_leases_user_replaced", ["user", "replaced_at"], unique=False)

    op.create_table(
        "lease_slices",
        sa.Column("lease_id", sa.String(length=40), nullable=False),
        sa.Column("gpu_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("mib", sa.BigInteger(), nullable=False),
        sa.Column("thousandths", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("0 < thousandths AND thousandths <= 1000", name=op.f("ck_lease_slices_share")),
        sa.CheckConstraint("mib > 0", name=op.f("ck_lease_slices_memory")),
        sa.ForeignKeyConstraint(["gpu_id"], ["gpus.id"], name=op.f("fk_lease_slices_gpu_id")),
        sa.ForeignKeyConstraint(
            ["lease_id"], ["leases.id"], name=op.f("fk_lease_slices_lease_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("lease_id", "gpu_id", name=op.f("pk_lease_slices")),
    )


def downgrade() -> None:
    op.drop_table("lease_slices")
    with op.batch_alter_table("leases", schema=None) as batch_op:
        batch_op.drop_index("ix_leases_user_replaced")
        batch_op.drop_index("ix_leases_state_expires")
        batch_op.drop_index("ix_leases_course_state")
        batch_op.drop_index("ix_leases_agent_state")

    op.drop_table("leases")
    with op.batch_alter_table("gpus", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_gpus_gpu_class"))

    op.drop_table("gpus")
    op.drop_table("course_limits")
    with op.batch_alter_table("usage", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_usage_lease_id"))
        batch_op.drop_index(batch_op.f("ix_usage_ended_at"))
        batch_op.drop_index(batch_op.f("ix_usage_course"))

    op.drop_table("usage")
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_events_subject"))
        batch_op.drop_index(batch_op.f("ix_events_at"))

    op.drop_table("events")
    op.drop_table("courses")
    op.drop_table("agents")
