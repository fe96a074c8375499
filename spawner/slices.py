"""What each server holds of GPUs, for the details of servers in the hub's own admin panel.

All leases are asked for at once, in a thread, while servers run: the panel asks every spawner for its state,
and nobody must wait for the controller there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from gpu_kernels.client import Lease, PoolClient
from gpu_kernels.errors import PoolError

log = logging.getLogger("gpu_kernels.spawner")

CALL_S = 10.0
KEEP_S = 20.0
OLD_S = 120.0
"""After which nothing is said rather than what was."""
MOST_TOLD = 10
LONGEST_PATH = 60
NOTHING = "none"
STATES = {
    "queued": "waits",
    "reserved": "granted",
    "active": "in use",
    "draining": "ending",
    "quarantined": "held back",
}


class ServersSlices:
    """Those of all servers of a hub. ``token``: one with `custom:gpu:read:usage`, which sees all leases."""

    def __init__(self, controller: str, token: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._controller, self._token, self._clock = controller, token, clock
        self._lock = threading.Lock()
        self._known: Mapping[tuple[str, str], str] = {}
        self._told_at = self._asked_at = float("-inf")
        self._away = False

    def of(self, user: str, server: str) -> str | None:
        """What a user's server holds and waits for, in a line; None where nobody knows now. Never blocks."""
        if self._clock() - self._told_at > OLD_S:
            return None
        return self._known.get((user, server), NOTHING)

    def freshen(self) -> None:
        """Have a thread ask, unless one did a moment ago. For the event loop; never blocks."""
        with self._lock:
            if self._clock() - self._asked_at < KEEP_S:
                return
            self._asked_at = self._clock()
        with contextlib.suppress(RuntimeError):  # no loop runs: nobody looks either
            asyncio.get_running_loop().run_in_executor(None, self.ask)

    def ask(self) -> None:
        """Blocks for a call. Never raises: an outage is logged once."""
        try:
            with PoolClient(self._controller, self._token, CALL_S) as pool:
                self._known = by_server(pool.list(everyone=True))
            self._told_at, self._away = self._clock(), False
        except PoolError as error:
            if not self._away:
                log.warning("The slices of servers are not known for the admin panel: %s", error.log_message)
            self._away = True


@lru_cache(maxsize=8)
def slices_of_servers(controller: str, token: str) -> ServersSlices:
    """One for all spawners of a hub."""
    return ServersSlices(controller, token)


def by_server(leases: Iterable[Lease]) -> dict[tuple[str, str], str]:
    """By user and server, a line of what it holds and waits for."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for lease in sorted(leases, key=lambda lease: (lease.queued, lease.slot.path)):
        found[lease.user, lease.slot.server].append(told(lease))
    return {server: in_a_line(its) for server, its in found.items()}


def told(lease: Lease) -> str:
    """``0.02 V100 in use on gpu1 (work.ipynb)``"""
    path = lease.slot.path
    if len(path) > LONGEST_PATH:
        path = f"\N{HORIZONTAL ELLIPSIS}{path[-LONGEST_PATH:]}"
    place = f", number {lease.position}" if lease.queued and lease.position else ""
    where = f" on {lease.agent_name}" if lease.agent else ""
    named = f" ({path})" if path else ""
    return f"{lease.size} {STATES.get(lease.state, lease.state)}{place}{where}{named}"


def in_a_line(texts: list[str]) -> str:
    more = len(texts) - MOST_TOLD
    return "; ".join(texts[:MOST_TOLD]) + (f"; and {more} more" if more > 0 else "")
