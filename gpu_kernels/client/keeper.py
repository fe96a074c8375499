"""Keeps the leases of this process in force: one thread renews all of them in one call.

Each holder says when it wants to be renewed (``client.lease_holder``); whenever one does, all of its client's
are. A lease is renewed only while whoever needs it says that he still does (``LeaseHolder.wanted``): a kernel
that died for good is not kept alive by its server, whatever the server forgot to call. Where several hold one
lease (two starts of one notebook's kernel), it is renewed while one of them wants it, in whatever order they
came to hold it: the pool alone knows whose it is.

The keeper is a thread and owns no event loop, since a Jupyter client may run each of a kernel's hooks in
another loop, and none in between. After a fork the child keeps nothing: the leases are its parent's.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from gpu_kernels.errors import PoolError

if TYPE_CHECKING:
    from gpu_kernels.client.answers import Lease, Renewal
    from gpu_kernels.client.lease_holder import LeaseHolder
    from gpu_kernels.client.requests import Script

log = logging.getLogger("gpu_kernels")

SHORTEST_PAUSE_S = 0.1


class Renewer(Protocol):
    """What the keeper needs of the pool client."""

    def renew(self, leases: Iterable[tuple[str, int]]) -> Renewal:
        """Renew (id, epoch) pairs in one call."""


class Client(Renewer, Protocol):
    """What who holds a lease needs of it."""

    def run(self, script: Script[None]) -> None:
        """Carry a script out."""


class Keeper:
    """Renews leases until they are forgotten, unwanted or lost. Safe to use from any thread."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._kept: dict[str, list[tuple[Renewer, LeaseHolder]]] = {}
        self._thread: threading.Thread | None = None
        self._outage = False

    def keep(self, client: Renewer, holder: LeaseHolder) -> None:
        """Renew what ``holder`` holds through ``client`` from now on. What it calls is called by the
        keeper's thread then, which others wait for.
        """
        with self._changed:
            self._kept.setdefault(_lease(holder).id, []).append((client, holder))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gpu-lease-keeper", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def forget(self, holder: LeaseHolder) -> None:
        """Renew for ``holder`` no longer; who else holds the lease keeps it. Ignored if it is not kept."""
        with self._changed:
            for lease_id, kept in list(self._kept.items()):
                kept[:] = [(client, other) for client, other in kept if other is not holder]
                if not kept:
                    del self._kept[lease_id]
            self._changed.notify_all()

    def holders(self) -> list[LeaseHolder]:
        with self._changed:
            return [holder for kept in self._kept.values() for _, holder in kept]

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
            with self._changed:
                # Looked up after each change: a new lease may have a shorter life.
                while self._kept and (left := min(holder.due_in for holder in self.holders())) > 0:
                    self._changed.wait(max(left, SHORTEST_PAUSE_S))
                if not self._kept:
                    self._thread = None
                    return
            self.round()

    def round(self) -> None:
        """Renew everything that is wanted, once. Never raises: an outage is logged when it begins and when
        it ends.
        """
        by_client: dict[int, tuple[Renewer, dict[str, LeaseHolder]]] = {}
        with self._changed:
            kept = [each for holders in self._kept.values() for each in holders]
        for client, holder in kept:
            if self._is_over(holder):
                self.forget(holder)
            else:
                by_client.setdefault(id(client), (client, {}))[1][_lease(holder).id] = holder
        for client, group in by_client.values():
            self._renew(client, group)

    @staticmethod
    def _is_over(holder: LeaseHolder) -> bool:
        return not holder.wanted() or holder.expires()

    def _renew(self, client: Renewer, group: dict[str, LeaseHolder]) -> None:
        with self._changed:
            all_of_them = {
                lease_id: [holder for _, holder in self._kept.get(lease_id, ())] for lease_id in group
            }
        began = {holder: holder.tries() for holders in all_of_them.values() for holder in holders}
        try:
            answer = client.renew([(lease_id, _lease(holder).epoch) for lease_id, holder in group.items()])
        except Exception as error:
            # Whatever it is (a refused connection, an expired token, a bug), the next round tries again.
            if not self._outage:
                log.warning("Cannot renew %d GPU lease(s), will go on trying: %s", len(group), error)
            self._outage = True
            return
        if self._outage:
            log.info("GPU leases are renewed again.")
            self._outage = False
        with self._changed:
            still_kept = [
                each for lease_id in group for _, each in self._kept.get(lease_id, ()) if each in began
            ]
            for gone in answer.lost:
                if gone.id in group:
                    self._kept.pop(gone.id, None)
            self._changed.notify_all()
        for holder in still_kept:
            try:
                holder.renewed(began[holder], answer)
            except Exception:
                log.exception("Who holds GPU lease %s could not be told of it", _lease(holder).id)


class KeptLease:
    """A lease in somebody's hands in this process, which the keeper renews. Its calls block."""

    def __init__(self, client: Client, holder: LeaseHolder) -> None:
        self.client, self.holder = client, holder
        self.lease = _lease(holder)
        self._released = threading.Lock()

    def keep(self) -> None:
        """Renew it from now on."""
        KEEPER.keep(self.client, self.holder)

    def still_in_force(self) -> bool:
        """Ask the controller, by renewing. One that does not answer has not taken anything back."""
        if self.holder.loss is None:
            began = self.holder.tries()
            try:
                answer = self.client.renew([(self.lease.id, self.lease.epoch)])
            except PoolError as error:
                log.warning("Cannot ask for GPU lease %s: %s", self.lease.id, error.log_message)
            else:
                if any(gone.id == self.lease.id for gone in answer.lost):
                    KEEPER.forget(self.holder)
                self.holder.renewed(began, answer)
        return self.holder.loss is None

    def release(self) -> PoolError | None:
        """Give it back, once. Never raises: what cannot be given back expires, since it is kept no longer;
        why it could not is returned.
        """
        if not self._released.acquire(blocking=False):
            return None
        KEEPER.forget(self.holder)
        return given_back(self.client, self.holder)


def given_back(client: Client, holder: LeaseHolder) -> PoolError | None:
    """Release what ``holder`` has or waits for; why that failed."""
    try:
        client.run(holder.release())
    except PoolError as error:
        return error
    return None


def _lease(holder: LeaseHolder) -> Lease:
    assert holder.lease is not None
    return holder.lease


KEEPER = Keeper()
os.register_at_fork(after_in_child=KEEPER._reset)
