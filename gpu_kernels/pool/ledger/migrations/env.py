"""Alembic's way into the ledger: ``database.migrate`` hands in a connection within its transaction."""

from alembic import context

from gpu_kernels.pool.ledger.models import Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
