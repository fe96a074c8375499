from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_kernels.pool.ledger.stores import Store
from gpu_kernels.pool.ledger.stores.memory import MemoryStore
from gpu_kernels.pool.ledger.stores.sql import SqlStore
from tests.pool.stores.examples import T

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


@pytest.fixture
def sql_store(opened: Callable[[], SqlStore]) -> SqlStore:
    """A SQL store that leads."""
    store = opened()
    store.lead("one", "http://one")
    return store


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store of each kind that leads."""
    made: Store
    if request.param == "memory":
        made = MemoryStore(lambda: T)
    elif request.param == "sqlite":
        made = SqlStore(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    else:
        made = SqlStore(request.getfixturevalue("postgresql_url"))
    made.open()
    made.lead("one", "http://one")
    yield made
    made.close()
