"""Keeps the leases of this process in force: one thread renews all of a client's in one call.

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
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from gpu_kernels.client.lease_holder import LeaseHolder, State
from gpu_kernels.errors import PoolError

if TYPE_CHECKING:
    from gpu_kernels.client.requests import Script
    from gpu_kernels.resources.leases import Lease, Renewal

log = logging.getLogger("gpu_kernels")

SHORTEST_PAUSE_S = 0.1
AFTER_FAULT_S = 1.0


class Renewer(Protocol):
    """What the keeper needs of the pool client."""

    def renew(self, leases: Iterable[tuple[str, int]]) -> Renewal:
        """Renew (id, epoch) pairs in one call."""


class Client(Renewer, Protocol):
    """What who holds a lease needs of it."""

    def run(self, script: Script[None]) -> None:
        """Carry a script out."""


class Heartbeat:
    """Renews what is kept for one client; its thread ends by itself when that is nothing any more."""

    def __init__(self, client: Renewer) -> None:
        self._client = client
        self._changed = threading.Condition()
        self._kept: list[LeaseHolder] = []
        self._thread: threading.Thread | None = None
        self._outage = False

    def keep(self, holder: LeaseHolder) -> None:
        with self._changed:
            if holder not in self._kept:
                self._kept.append(holder)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="gpu-lease-keeper", daemon=True)
                thread.start()
                self._thread = thread
            self._changed.notify_all()

    def forget(self, holder: LeaseHolder) -> None:
        with self._changed:
            self._kept = [other for other in self._kept if other is not holder]
            self._changed.notify_all()

    def holders(self) -> list[LeaseHolder]:
        with self._changed:
            return list(self._kept)

    @property
    def thread(self) -> threading.Thread | None:
        with self._changed:
            return self._thread

    def _run(self) -> None:
        while self._wait():
            try:
                self.round()
            except Exception:
                log.exception("Renewing GPU leases failed; it is tried again")
                time.sleep(AFTER_FAULT_S)

    def _wait(self) -> bool:
        """Until something is due; False when nothing is left to keep, and the thread ends."""
        with self._changed:
            # Looked up after each change: a new lease may have a shorter life.
            while self._kept and (left := min(holder.due_in for holder in self._kept)) > 0:
                self._changed.wait(max(left, SHORTEST_PAUSE_S))
            if not self._kept:
                self._thread = None
            return bool(self._kept)

    def round(self) -> None:
        """Renew everything that is wanted, once. An outage is logged when it begins and when it ends."""
        for holder in self.holders():
            if self._is_over(holder):
                self.forget(holder)
        began = {holder: holder.tries() for holder in self.holders()}
        if not began:
            return
        leases = {_lease(holder).id: _lease(holder).epoch for holder in began}
        try:
            answer = self._client.renew(list(leases.items()))
        except Exception as error:
            # Whatever it is (a refused connection, an expired token, a bug), the next round tries again.
            if not self._outage:
                log.warning("Cannot renew %d GPU lease(s), will go on trying: %s", len(leases), error)
            self._outage = True
            return
        if self._outage:
            log.info("GPU leases are renewed again.")
            self._outage = False
        gone = {lost.id for lost in answer.lost}
        for holder in self.holders():
            if holder in began:
                if _lease(holder).id in gone:
                    self.forget(holder)
                self._tell(holder, began[holder], answer)

    @staticmethod
    def _is_over(holder: LeaseHolder) -> bool:
        try:
            return not holder.wanted() or holder.expires()
        except Exception:  # a fault of one holder is no reason to forget it, nor to renew no other
            log.exception("Who holds GPU lease %s could not be asked whether it is wanted", _lease(holder).id)
            return False

    @staticmethod
    def _tell(holder: LeaseHolder, began: float, answer: Renewal) -> None:
        try:
            holder.renewed(began, answer)
        except Exception:
            log.exception("Who holds GPU lease %s could not be told of it", _lease(holder).id)


class Keeper:
    """Renews leases until they are forgotten, unwanted or lost: a thread a client, so that one whose
    controller hangs holds up no other. Safe to use from any thread.
    """

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._heartbeats: dict[int, Heartbeat] = {}

    def keep(self, client: Renewer, holder: LeaseHolder) -> None:
        """Renew what ``holder`` holds through ``client`` from now on. What it calls is called by the
        client's thread then, which others wait for.
        """
        with self._lock:
            for known in [known for known, each in self._heartbeats.items() if each.thread is None]:
                del self._heartbeats[known]
            self._heartbeats.setdefault(id(client), Heartbeat(client)).keep(holder)

    def forget(self, holder: LeaseHolder) -> None:
        """Renew for ``holder`` no longer; who else holds the lease keeps it. Ignored if it is not kept."""
        for heartbeat in self._all():
            heartbeat.forget(holder)

    def holders(self) -> list[LeaseHolder]:
        return [holder for heartbeat in self._all() for holder in heartbeat.holders()]

    def keeps(self) -> list[str]:
        """The ids of the leases kept now."""
        return list(dict.fromkeys(_lease(holder).id for holder in self.holders()))

    def threads(self) -> list[threading.Thread]:
        """Those that run; each ends by itself when nothing is left to keep."""
        return [each.thread for each in self._all() if each.thread is not None]

    def round(self) -> None:
        """Renew everything now, besides what the threads do."""
        for heartbeat in self._all():
            heartbeat.round()

    def _all(self) -> list[Heartbeat]:
        with self._lock:
            return list(self._heartbeats.values())


class KeptLease:
    """A lease in somebody's hands in this process, which the keeper renews. Its calls block."""

    def __init__(self, client: Client, holder: LeaseHolder) -> None:
        self.client, self.holder = client, holder
        self.lease = _lease(holder)
        self._released = threading.Lock()

    def keep(self) -> None:
        """Renew it from now on. Ignored where that is done already, and once it is given back."""
        if not self._released.locked():
            KEEPER.keep(self.client, self.holder)

    def still_in_force(self) -> bool:
        """Ask the controller, by renewing. One that does not answer has not taken anything back."""
        if self.holder.state is State.HELD:
            try:
                self.client.run(self.holder.renew())
            except PoolError as error:
                log.warning("Cannot ask for GPU lease %s: %s", self.lease.id, error.log_message)
            if self.holder.loss is not None:
                KEEPER.forget(self.holder)
        return self.holder.state is State.HELD

    def release(self) -> PoolError | None:
        """Give it back, once. Never raises: what cannot be given back expires, since it is kept no longer;
        why it could not is returned.
        """
        if not self._released.acquire(blocking=False):
            return None
        KEEPER.forget(self.holder)
        return given_back(self.client, self.holder)


def given_back(client: Client, holder: LeaseHolder, *, everything: bool = False) -> PoolError | None:
    """Release what ``holder`` has or waits for; why that failed. ``everything``: see its ``release``."""
    try:
        client.run(holder.release(everything=everything))
    except PoolError as error:
        return error
    return None


def _lease(holder: LeaseHolder) -> Lease:
    assert holder.lease is not None
    return holder.lease


KEEPER = Keeper()
os.register_at_fork(after_in_child=KEEPER._reset)
