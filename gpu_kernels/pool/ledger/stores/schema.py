"""The schema of a SQL store: which version a database has, and how it is brought to this code's.

A migration, however many steps it has, is one transaction under the writer's lock. Killed in the middle it
leaves the old state; two controllers that start at once take turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from gpu_kernels.errors import GPUKernelsError
from gpu_kernels.pool.ledger.stores.database import Database
from gpu_kernels.pool.ledger.stores.term import Terms

MIGRATIONS = Path(__file__).parent / "migrations"


class NewerDatabase(GPUKernelsError):
    """The database was migrated by a newer version of this software."""

    code = "newer_database"


def configuration() -> Config:
    """Alembic's, for this package's migrations."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config


@cache
def _revisions() -> tuple[frozenset[str], frozenset[str]]:
    """All revisions that this code knows, and the newest; to read them from their files takes a while."""
    script = ScriptDirectory.from_config(configuration())
    known = frozenset(revision.revision for revision in script.walk_revisions())
    return known, frozenset(script.get_heads())


@contextmanager
def migrating(database: Database) -> Iterator[Connection]:
    """One write transaction of ``database``, for Alembic. Raises ``LedgerUnavailable``."""
    engine = _engine(database)
    try:
        with engine.begin() as connection:
            yield connection
    except DBAPIError as error:
        refusal = database.refusal(error.orig) if isinstance(error.orig, Exception) else None
        raise refusal or error from error
    except database.errors as error:
        raise database.refusal(error) or error from error
    finally:
        engine.dispose()


def _engine(database: Database) -> Engine:
    """Its connections are those of ``database``, so that they are prepared alike."""
    engine = create_engine(database.url, creator=database.connect, poolclass=NullPool)

    def begin(connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        database.begin(driver, True, "SELECT 1")

    event.listen(engine, "begin", begin)
    return engine


def upgrade(database: Database, terms: Terms, *, alone: bool = False) -> bool:
    """Bring the database to this code's schema.

    False where it is older and a controller serves it, or may serve it, which an upgrade would break (unless
    ``alone``: that one is dead). Raises ``NewerDatabase`` where the database is ahead of the code.
    """
    known, heads = _revisions()
    if versions(database) == heads:
        return True
    config = configuration()
    with migrating(database) as connection:
        present = set(MigrationContext.configure(connection).get_current_heads())
        if not present <= known:
            raise NewerDatabase(
                f"The ledger was written by a newer version (schema {', '.join(sorted(present - known))}). "
                "Start that version, or give this one another database; nothing was changed."
            )
        if present == heads:
            return True
        if present and not alone and _served(connection, terms):
            return False
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        return True


def versions(database: Database) -> set[str]:
    """What the database says of its schema, without waiting for a writer."""
    with closing(database.connect()) as connection:
        try:
            if not connection.execute(database.has_table, ("alembic_version",)).fetchone()[0]:
                return set()
            return {row[0] for row in connection.execute("SELECT version_num FROM alembic_version")}
        except database.errors as error:
            raise database.refusal(error) or error from error


def _served(connection: Connection, terms: Terms) -> bool:
    """The first schema knew no terms: there is no telling."""
    if not inspect(connection).has_table("leadership"):
        return True
    now, leader = terms.parse(connection.execute(text(terms.query)).one())
    return not terms.over(leader, now)
