"""What instructors say of their courses, apart from what stands above them

Going down it is left out: the old code has nowhere to put it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "taught_rules",
        sa.Column("account", TEXT, nullable=False),
        sa.Column("rules", sa.JSON(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("account", name="pk_taught_rules"),
        sa.ForeignKeyConstraint(
            ["account"], ["accounts.name"], "fk_taught_rules_account", deferrable=True, initially="DEFERRED"
        ),
    )


def downgrade() -> None:
    op.drop_table("taught_rules")
