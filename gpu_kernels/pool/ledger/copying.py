"""Changing frozen rows, a few times as fast as ``dataclasses.replace``: every decision does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from gpu_kernels.pool.ledger.rows import TABLES, Row

R = TypeVar("R", bound=Row)
Column = tuple[Callable[[Any, Any], None], Callable[[Any], Any]]

_COLUMNS: Mapping[Any, Mapping[str, Column]] = {
    kind: {f.name: (vars(kind)[f.name].__set__, vars(kind)[f.name].__get__) for f in fields(kind)}
    for kind in TABLES
}
"""How each field's slot is set and read, past the guard of a frozen class."""


def changed(row: R, **values: Any) -> R:
    """A row like this one, but for these fields. Raises ``KeyError`` for a field that it does not have."""
    columns = _COLUMNS[type(row)]
    new = object.__new__(type(row))
    for put, get in columns.values():
        put(new, get(row))
    for name, value in values.items():
        columns[name][0](new, value)
    return new
