"""Keeps the leases of this process in force: one thread renews all of them in one call.

A lease lives for its time to live after each renewal, by the controller's clock. The keeper renews every
third of it, so that two failed rounds in a row lose nothing. A lease is renewed only while whoever needs it
says that he still does (``Kept.wanted``): a kernel that died for good is not kept alive by its server,
whatever the server forgot to call. Where several hold one lease (two starts of one notebook's kernel), it is
renewed while one of them wants it, in whatever order they came to hold it: the pool alone knows whose it is.

The keeper is a thread and owns no event loop, since a Jupyter client may run each of a kernel's hooks in
another loop, and none in between. After a fork the child keeps nothing: the leases are its parent's.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable
from typing import Any, Protocol

log = logging.getLogger("gpu_kernels")

ROUNDS_A_LIFE = 3
SHORTEST_PERIOD_S = 0.2


class Kept(Protocol):
    """A lease that somebody wants kept; ``ttl`` in seconds. The keeper's thread calls these: none may
    block.
    """

    @property
    def lease_id(self) -> str: ...

    @property
    def epoch(self) -> int: ...

    @property
    def ttl(self) -> float: ...

    def wanted(self) -> bool:
        """Whether to renew once more. After the first False the keeper forgets the lease, which then
        expires.
        """

    def lost(self, state: str, reason: str) -> None:
        """Called once if the controller says that the lease is no longer in force; ``state`` is its state
        now.
        """


class Renewer(Protocol):
    """What the keeper needs of the pool client."""

    def renew(self, leases: Iterable[tuple[str, int]]) -> Any:
        """Renew (id, epoch) pairs in one call; the answer has ``renewed`` and ``lost``, as in the API."""


class Keeper:
    """Renews leases until they are forgotten, unwanted or lost. Safe to use from any thread."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._kept: dict[str, list[tuple[Renewer, Kept]]] = {}
        self._thread: threading.Thread | None = None
        self._outage = False

    def keep(self, client: Renewer, kept: Kept) -> None:
        """Renew ``kept`` through ``client`` from now on."""
        with self._changed:
            self._kept.setdefault(kept.lease_id, []).append((client, kept))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gpu-lease-keeper", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def forget(self, kept: Kept) -> None:
        """Renew ``kept`` no longer; who else holds the lease keeps it. Ignored if it is not kept."""
        with self._changed:
            holders = self._kept.get(kept.lease_id, [])
            holders[:] = [(client, other) for client, other in holders if other is not kept]
            if not holders:
                self._kept.pop(kept.lease_id, None)
            self._changed.notify_all()

    def _holders(self) -> list[tuple[Renewer, Kept]]:
        with self._changed:
            return [holder for holders in self._kept.values() for holder in holders]

    def keeps(self) -> list[str]:
        """The ids of the leases kept now."""
        with self._changed:
            return list(self._kept)

    def running(self) -> bool:
        """Whether the thread runs; it ends by itself when nothing is left to keep."""
        with self._changed:
            return self._thread is not None

    def _run(self) -> None:
        while True:
            began = time.monotonic()
            with self._changed:
                # The period is looked up after each change: a new lease may have a shorter life.
                while self._kept and (left := began + self._period() - time.monotonic()) > 0:
                    self._changed.wait(left)
                if not self._kept:
                    self._thread = None
                    return
            self.round()

    def _period(self) -> float:
        shortest = min((kept.ttl for _, kept in self._holders()), default=0.0)
        return max(shortest / ROUNDS_A_LIFE, SHORTEST_PERIOD_S)

    def round(self) -> None:
        """Renew everything that is wanted, once. Never raises: an outage is logged when it begins and when
        it ends.
        """
        wanted: dict[str, tuple[Renewer, Kept]] = {}
        for client, kept in self._holders():
            if kept.wanted():
                wanted[kept.lease_id] = (client, kept)
            else:
                self.forget(kept)
        by_client: dict[int, tuple[Renewer, list[Kept]]] = {}
        for client, kept in wanted.values():
            by_client.setdefault(id(client), (client, []))[1].append(kept)
        for client, group in by_client.values():
            self._renew(client, group)

    def _renew(self, client: Renewer, group: list[Kept]) -> None:
        try:
            answer = client.renew([(kept.lease_id, kept.epoch) for kept in group])
        except Exception as error:
            # Whatever it is (a refused connection, an expired token, a bug), the next round tries again.
            if not self._outage:
                log.warning("Cannot renew %d GPU lease(s), will go on trying: %s", len(group), error)
            self._outage = True
            return
        if self._outage:
            log.info("GPU leases are renewed again.")
            self._outage = False
        mine = {kept.lease_id for kept in group}
        for gone in answer.lost:
            if gone.id not in mine:
                continue
            with self._changed:
                holders = self._kept.pop(gone.id, [])
                self._changed.notify_all()
            for _, kept in holders:
                kept.lost(gone.state, gone.reason or "")


KEEPER = Keeper()
os.register_at_fork(after_in_child=KEEPER._reset)
