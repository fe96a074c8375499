from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copy

import psycopg
import pytest

from gpu_kernels.pool.ledger.stores import Store
from gpu_kernels.pool.ledger.stores.memory import MemoryStore
from gpu_kernels.pool.ledger.stores.sql import SqlStore
from gpu_kernels.pool.ledger.stores.tables import METADATA
from tests.pool.stores.examples import T
from tests.pool.stores.postgresql import Server

TTL = 60_000


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    found: str = request.getfixturevalue("postgresql_url")
    return found


@pytest.fixture
def opened(url: str) -> Iterator[Callable[[], SqlStore]]:
    """Makes stores of one database: each is a controller's, open, and without a term."""
    made = []

    def open_store() -> SqlStore:
        store = SqlStore(url, term_ttl=TTL)
        made.append(store)
        store.open()
        return store

    yield open_store
    for store in made:
        store.close()


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with nothing in it, to be copied: making one takes longer than most tests."""
    path = tmp_path_factory.mktemp("migrated") / "ledger.sqlite"
    store = SqlStore(f"sqlite:///{path}")
    store.open()
    store.close()
    return path


@pytest.fixture(scope="session")
def migrated_database(postgresql_server: Server) -> str:
    """The same in PostgreSQL, to be emptied before each use."""
    url = postgresql_server.new_database()
    store = SqlStore(url)
    store.open()
    store.close()
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def migrated_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A ledger of each kind with nothing in it."""
    return ready(request.param, request, tmp_path)


def ready(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    if kind == "sqlite":
        copy(request.getfixturevalue("migrated_file"), folder / "ledger.sqlite")
        return f"sqlite:///{folder / 'ledger.sqlite'}"
    url: str = request.getfixturevalue("migrated_database")
    tables = ", ".join(f'"{table.name}"' for table in METADATA.sorted_tables)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"TRUNCATE {tables}")  # type: ignore[arg-type]
    return url


@pytest.fixture
def sql_store(migrated_url: str) -> Iterator[SqlStore]:
    """A SQL store that leads."""
    store = SqlStore(migrated_url)
    store.open()
    store.lead("one", "http://one")
    yield store
    store.close()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store of each kind that leads."""
    memory = request.param == "memory"
    made: Store = MemoryStore(lambda: T) if memory else SqlStore(ready(request.param, request, tmp_path))
    made.open()
    made.lead("one", "http://one")
    yield made
    made.close()
