"""The same ledger kept three ways, each with a clock that the machine sets, opened as often as controllers
start on it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Protocol

from gpu_kernels.pool.ledger.state.rows import TABLES, Event, Row
from gpu_kernels.pool.ledger.stores import Store
from gpu_kernels.pool.ledger.stores.memory import Disk, MemoryStore
from gpu_kernels.pool.ledger.stores.sql import SqlStore, rows_of

Clock = Callable[[], int]


class Kept(Protocol):
    """One ledger, and how to get at it."""

    def store(self) -> Store:
        """A store as a controller opens it that starts."""

    def rows(self) -> list[Row]:
        """What is committed, but for events."""

    def gone(self, store: Store) -> None:
        """The process of that store's controller has ended without a word."""

    def close(self) -> None: ...


class InMemory:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._disk = Disk()
        self._numbers = count(1)

    def store(self) -> Store:
        return MemoryStore(self._clock, lambda: f"incarnation-{next(self._numbers)}", self._disk)

    def rows(self) -> list[Row]:
        return [row for kind in TABLES if kind is not Event for row in self._disk.rows[kind].values()]

    def gone(self, store: Store) -> None:
        store.rollback()

    def close(self) -> None:
        pass


class SetClock(SqlStore):
    """A SQL store whose clock the machine sets."""

    def __init__(self, url: str, clock: Clock) -> None:
        super().__init__(url)
        self._clock = clock

    def begin(self, *, writes: bool = True) -> int:
        super().begin(writes=writes)
        return self._clock()


class InSql:
    """In a database of that URL; ``drop`` takes it away at the end."""

    def __init__(self, url: str, clock: Clock, drop: Callable[[], None]) -> None:
        self._url, self._clock, self._drop = url, clock, drop
        self._opened: list[SqlStore] = []

    def store(self) -> Store:
        made = SetClock(self._url, self._clock)
        self._opened.append(made)
        return made

    def rows(self) -> list[Row]:
        return rows_of(self._opened[-1], [kind for kind in TABLES if kind is not Event])

    def gone(self, store: Store) -> None:
        assert isinstance(store, SqlStore)
        store._disconnect()
        store.close_readers()

    def close(self) -> None:
        for store in self._opened:
            store._disconnect()
            store.close_readers()
        self._drop()


def in_sqlite(clock: Clock) -> InSql:
    folder = Path(mkdtemp(prefix="machine-"))
    return InSql(f"sqlite:///{folder / 'ledger.sqlite'}", clock, lambda: rmtree(folder))
