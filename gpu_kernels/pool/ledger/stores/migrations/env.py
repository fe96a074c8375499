"""Alembic's way into the ledger: ``schema.upgrade`` hands in a connection within its transaction."""

from alembic import context

from gpu_kernels.pool.ledger.stores.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
