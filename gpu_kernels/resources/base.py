"""What all resources share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

R = TypeVar("R")
BIG = 2**62
"""Counters stay below it, so that no store needs more than 63 bits."""


class Resource(msgspec.Struct, frozen=True):
    """A value of the API. Whoever reads one passes over fields that it does not know."""


Id = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
Count = Annotated[int, Meta(ge=0, le=BIG)]
Thousandths = Annotated[int, Meta(ge=0, le=100_000_000, description="Thousandths of a GPU")]
Instant = Annotated[
    str, Meta(examples=["2026-11-21T12:49:54.547+00:00"], extra_json_schema={"format": "date-time"})
]
Next = Annotated[str | None, Meta(description="Asks for what follows (`after`); null where nothing does")]


def one_of(words: tuple[str, ...]) -> Meta:
    """For a text that is one of these now: a newer controller may have more, and is read all the same."""
    return Meta(extra_json_schema={"enum": list(words)})


def reader(kind: type[R]) -> Callable[[Any], R]:
    """Makes ``kind`` of what JSON was read as. Raises ``msgspec.ValidationError``."""
    return partial(msgspec.convert, type=kind)
