"""What a SQL store says to its database: statements by table, made once, and rows as their parameters.

The texts are good for SQLite and PostgreSQL; they differ in the parameters' ``marker`` alone. All names are
quoted, since some columns are SQL's words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import lru_cache
from itertools import compress
from operator import attrgetter, ne
from typing import Any, NamedTuple, TypeVar, get_type_hints

from sqlalchemy import UniqueConstraint

from gpu_kernels.pool.ledger.state.rows import TABLES, Change, Row
from gpu_kernels.pool.ledger.stores.tables import BY_ROW, is_json
from gpu_kernels.units import Size, parse_size

R = TypeVar("R")
Values = tuple[Any, ...]
POSTGRESQL_TYPES = {int: "bigint", float: "double precision", bool: "boolean"}


class Batch(NamedTuple):
    """One statement, and the parameters of each row that it writes.

    ``bulk``: for PostgreSQL, one that writes them all from an array for each parameter; empty where the order
    of the rows matters.
    """

    statement: str
    values: list[Values]
    bulk: str = ""


class Codec:
    """One row class as a database sees it."""

    def __init__(self, row: type[Row], marker: str) -> None:
        hints = get_type_hints(row)
        self.row = row
        self.names = tuple(field.name for field in fields(row))
        self._marker = marker
        self._json = frozenset(name for name in self.names if is_json(hints[name]))
        self._sizes = frozenset(name for name in self.names if hints[name] is Size)
        self._tuples = frozenset(name for name in self._json if "tuple" in str(hints[name]))
        self._types = {name: POSTGRESQL_TYPES.get(_plain(hints[name]), "text") for name in self.names}
        constraints = [c for c in BY_ROW[row].constraints if isinstance(c, UniqueConstraint)]
        self._unique = frozenset(column.name for c in constraints for column in c.columns)
        self._bools = frozenset(name for name in self.names if hints[name] is bool)
        self.columns = ", ".join(quoted(name) for name in self.names)
        self._all = self._reader(self.names)
        self._where = " AND ".join(f"{quoted(name)} = {marker}" for name in row.KEY)
        self._key = self._reader(row.KEY)
        markers = ", ".join([marker] * len(self.names))
        self._insert = f"INSERT INTO {quoted(row.TABLE)} ({self.columns}) VALUES ({markers})"
        self._delete = f"DELETE FROM {quoted(row.TABLE)} WHERE {self._where}"
        self._others = tuple(name for name in self.names if name not in row.KEY)
        self._values: Callable[[Any], Values] = attrgetter(*self._others)
        self._updates = lru_cache(maxsize=None)(self._update)

    def of_change(self, change: Change) -> tuple[str, Values, str] | None:
        """The statement that brings the store from ``before`` to ``after`` (as in ``Batch``); None where they
        are the same.
        """
        before, after = change
        if after is None:
            return self._delete, self._key(before), ""
        if before is None:
            return self._insert, self._all(after), ""
        names = tuple(compress(self._others, map(ne, self._values(before), self._values(after))))
        if not names:
            return None
        statement, values, bulk = self._updates(names)
        return statement, values(after), bulk

    def _update(self, names: tuple[str, ...]) -> tuple[str, Callable[[Row], Values], str]:
        sets = ", ".join(f"{quoted(name)} = {self._marker}" for name in names)
        statement = f"UPDATE {quoted(self.row.TABLE)} SET {sets} WHERE {self._where}"
        bulk = "" if self._unique.intersection(names) else self._bulk(names)
        return statement, self._reader((*names, *self.row.KEY)), bulk

    def _bulk(self, names: tuple[str, ...]) -> str:
        """Columns of the arrays are called by number, as their names may be those of the table."""
        columns, key = (*names, *self.row.KEY), range(len(names), len(names) + len(self.row.KEY))
        arrays = ", ".join(f"{self._marker}::{self._types[name]}[]" for name in columns)
        called = ", ".join(f"v{place}" for place in range(len(columns)))
        cast = ["::json" if name in self._json else "" for name in names]
        sets = ", ".join(f"{quoted(name)} = v.v{place}{cast[place]}" for place, name in enumerate(names))
        table = quoted(self.row.TABLE)
        where = " AND ".join(f"{table}.{quoted(columns[place])} = v.v{place}" for place in key)
        return f"UPDATE {table} SET {sets} FROM unnest({arrays}) AS v({called}) WHERE {where}"

    def _reader(self, names: Sequence[str]) -> Callable[[Any], Values]:
        """What reads the values of these fields from a row, as parameters."""
        dumped = [(place, made) for place, name in enumerate(names) if (made := self._dumper(name))]
        if len(names) == 1:
            one = attrgetter(names[0])
            if not dumped:
                return lambda row: (one(row),)
            ((_, only),) = dumped
            return lambda row: (only(one(row)),)
        get: Callable[[Any], Values] = attrgetter(*names)
        if not dumped:
            return get

        def with_texts(row: Any) -> Values:
            values = list(get(row))
            for place, made in dumped:
                values[place] = made(values[place])
            return tuple(values)

        return with_texts

    def _dumper(self, name: str) -> Callable[[Any], str] | None:
        """What makes a column of a field of this name, where that is not the field's value itself."""
        if name in self._json:
            return _dump
        return str if name in self._sizes else None

    def rows(self, results: Iterable[Sequence[Any]]) -> Iterator[Any]:
        """Rows from what a query for ``columns`` has given."""
        names, make = self.names, self.row
        odd = [(place, self._loader(name)) for place, name in enumerate(names) if self._loader(name)]
        for result in results:
            values = list(result)
            for place, load in odd:
                values[place] = load(values[place])  # type: ignore[misc]
            yield make(**dict(zip(names, values, strict=True)))

    def _loader(self, name: str) -> Callable[[Any], Any] | None:
        """What makes a field of this name from its column, where that is not the column's value itself."""
        if name in self._tuples:
            return lambda value: tuple(_load(value))
        if name in self._json:
            return _load
        if name in self._sizes:
            return parse_size
        return bool if name in self._bools else None


def _plain(hint: Any) -> Any:
    return next((kind for kind in (int, float, bool) if hint in (kind, kind | None)), str)


def quoted(name: str) -> str:
    return f'"{name}"'


def _dump(value: Any) -> str:
    if not value:
        return "[]" if isinstance(value, tuple) else "{}"
    return json.dumps(value if isinstance(value, tuple) else dict(value), separators=(",", ":"))


def _load(value: Any) -> Any:
    """PostgreSQL's driver has read the JSON already."""
    return json.loads(value) if isinstance(value, str) else value


class Codecs:
    """The codecs of all tables for one kind of database."""

    def __init__(self, marker: str) -> None:
        self.by_row: dict[type[Row], Codec] = {row: Codec(row, marker) for row in TABLES}

    def __getitem__(self, row: type[Row]) -> Codec:
        return self.by_row[row]

    def batches(self, changes: Iterable[Change]) -> Iterator[Batch]:
        """The statements of these changes: table by table, within a table in the order given, and runs of
        the same statement as one.

        Tables may be taken apart because foreign keys are checked at the commit.
        """
        by_table: dict[type[Row], list[Batch]] = {}
        for change in changes:
            row = type(change.before if change.after is None else change.after)
            written = self.by_row[row].of_change(change)  # type: ignore[index]
            if written is None:
                continue
            statement, values, bulk = written
            runs = by_table.setdefault(row, [])  # type: ignore[arg-type]
            if runs and runs[-1].statement == statement:
                runs[-1].values.append(values)
            else:
                runs.append(Batch(statement, [values], bulk))
        for runs in by_table.values():
            yield from runs
