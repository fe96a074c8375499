"""Tokens of GPU servers, each bound to one name

Going down it is left out, and its servers need tokens of the hub or of the token file again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "agent_tokens",
        sa.Column("sha256", TEXT, nullable=False),
        sa.Column("agent", TEXT, nullable=False),
        sa.Column("created_by", TEXT, nullable=False),
        sa.Column("created_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("sha256", name="pk_agent_tokens"),
        sa.CheckConstraint("length(sha256) = 64", name="digest"),
    )


def downgrade() -> None:
    op.drop_table("agent_tokens")
