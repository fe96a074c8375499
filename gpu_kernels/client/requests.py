"""What both kinds of client send: requests, and scripts of several of them. Nothing here sends.

A *script* is a generator that yields requests (and pauses), and is sent their answers, or has their errors
raised at the ``yield``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """One request. ``wait`` is how long the controller itself may take over it, on purpose. ``repeatable``:
    whether it may be sent again where it is not known if it was carried out. ``plain``: the answer is text,
    and not JSON.
    """

    method: str
    path: str
    read: Callable[[Any], T]
    body: Any = None
    params: Mapping[str, str] = field(default_factory=dict)
    wait: float = 0.0
    repeatable: bool = True
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing to send for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of many; ``next`` asks for those that follow, None where these are the last."""

    items: Sequence[T]
    next: str | None


Script = Generator[Request[Any] | Pause, Any, T]


def path_of(*parts: str) -> str:
    """Every part stays one: no name, such as ``..``, leads to another place."""
    return "/" + "/".join(quote(part, safe="") if part.strip(".") else "%2E" * len(part) for part in parts)


def query_of(**values: object) -> dict[str, str]:
    """A query's fields, without those that are None."""
    return {name: "1" if value is True else str(value) for name, value in values.items() if value is not None}


def all_pages(page: Callable[[dict[str, str]], Request[Page[T]]]) -> Script[list[T]]:
    """Everything, page by page; ``page`` makes the request from the cursor's parameters."""
    found: list[T] = []
    cursor: str | None = None
    while True:
        got: Page[T] = yield page({} if cursor is None else {"after": cursor})
        found += got.items
        cursor = got.next
        if cursor is None:
            return found
