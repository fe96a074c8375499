"""What all resources share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta

R = TypeVar("R")
BIG = 2**62
"""Counters stay below it, so that no store needs more than 63 bits."""
MAX_BODY = 1024 * 1024
"""Bytes of a request."""
WORDS: dict[str, str] = {}
"""What is said of a text that does not match a pattern, by the pattern."""


def pattern(expression: str, words: str) -> str:
    """A pattern for what a request says, and what is said of a text that does not match it."""
    WORDS[expression] = words
    return expression


PRINTABLE = pattern(
    r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]*$", "must not hold control characters"
)
"""No line ends, and nothing that changes the direction of what follows."""
CLASS = pattern(
    r"^[A-Za-z][A-Za-z0-9._-]{0,31}$",
    "must be a GPU class: up to 32 letters, digits, '.', '_', '-'; a letter first",
)


class Resource(msgspec.Struct, frozen=True):
    """A value of the API. Whoever reads one passes over fields that it does not know."""


class Body(Resource, frozen=True):
    """What a request says. Its annotations are the bounds that the service holds it to; in it and in its
    parts the service takes nothing that it does not know.
    """

    MOST_BYTES: ClassVar[int] = 128 * 1024
    """Checking one that is all faults takes the time of every other request."""


Text64 = Annotated[str, Meta(min_length=1, max_length=64, pattern=PRINTABLE)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
GpuClass = Annotated[str, Meta(pattern=CLASS, examples=["V100"])]
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
