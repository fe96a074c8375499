"""Preloads what httpx imports at its first request: for processes whose event loop must not stand still.

httpx imports its transport when the first client is made, and that one its sockets with the first connection:
a tenth of a second of a server that many people use, in the middle of somebody's request.
"""

from __future__ import annotations

import importlib
from contextlib import suppress

LATER = ("httpcore", "anyio.streams.tls", "anyio._backends._asyncio")


def preload_httpx() -> None:
    """Call it where a process starts. What is not there under that name is loaded when it is needed."""
    for name in LATER:
        with suppress(ImportError):
            importlib.import_module(name)
