"""Where a page of history ends, as a text that asks for the next one: the key of its last row.

Clients send it back, so it is read as what it is: anything.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from gpu_kernels.errors import InvalidRequest

LONGEST_CURSOR = 2000


def write_cursor(key: tuple[Any, ...]) -> str:
    """A key as text that can stand in a URL."""
    return base64.urlsafe_b64encode(json.dumps(key, separators=(",", ":")).encode()).decode().rstrip("=")


def read_cursor(cursor: str, kinds: tuple[type, ...]) -> tuple[Any, ...]:
    """The key again, of values of these kinds. Raises ``InvalidRequest`` for what no page has given."""
    try:
        if len(cursor) > LONGEST_CURSOR:
            raise ValueError
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        key = json.loads(base64.urlsafe_b64decode(padded))
    except (ValueError, RecursionError):
        key = None
    if (
        not isinstance(key, list)
        or len(key) != len(kinds)
        or not all(type(value) is kind for value, kind in zip(key, kinds, strict=True))
        or any(isinstance(value, int) and abs(value) >= 2**63 for value in key)
        or any(isinstance(value, str) and not value.isprintable() for value in key)
    ):
        raise InvalidRequest("The cursor is not one that this pool has given; begin without one.")
    return tuple(key)
