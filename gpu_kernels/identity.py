"""For whom a kernel asks: the server, the slot and the idempotency key of its lease.

The *slot* names the place that the lease is for, so that "change kernel" swaps one lease for the other
although Jupyter starts the new kernel before it stops the old one. The *key* names slot, kernel spec, size
and course, so that a page reloaded while its kernel still waits gets the same lease, not a second one. A
kernel without a notebook (a console that is not part of a session, ``nbclient``) has nothing but its own
id, and shares with nobody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_kernels.client import Slot
from gpu_kernels.client.lease_request import server_name

MAX_PATH = 200


@dataclass(frozen=True)
class Identity:
    """``notebook`` is the path that Jupyter gave, None without one."""

    notebook: str | None
    slot: Slot
    key: str


def identify(
    kernel_id: str, wish: Sequence[str], given: Mapping[str, str], environ: Mapping[str, str]
) -> Identity:
    """``wish`` is what tells one request for a slot from another: kernel spec, size, course.

    ``given`` is the environment that the kernel is to get, ``environ`` this process's own. A notebook path
    counts only if this process was told it for this kernel: one that is in its own environment too was
    inherited from the notebook that this process runs in, whose lease must not be replaced.
    """
    server = server_name(environ)
    notebook = given.get("JPY_SESSION_NAME")
    if notebook is not None and notebook == environ.get("JPY_SESSION_NAME"):
        notebook = None
    place = notebook or f"kernel {kernel_id}"
    return Identity(notebook, Slot(server, _bounded(place)), _digest(server, place, *wish))


def _bounded(path: str) -> str:
    """``path``, or for one that is long or cannot be shown, its end and a digest, as unmistakable."""
    plain = printable(path)
    return path if plain == path and len(path) <= MAX_PATH else f"{_digest(path)} {plain[-MAX_PATH // 2 :]}"


def printable(text: str) -> str:
    """``text`` without what a ledger or a log should not hold: control characters, halves of characters."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:32]
