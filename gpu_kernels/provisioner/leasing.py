"""Taking, holding and giving back a kernel's lease, in plain threads: nothing here belongs to an event
loop.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_kernels.client import CONTROLLER_VARIABLE, TOKEN_VARIABLES, Lease, PoolClient
from gpu_kernels.errors import (
    AuthenticationUnavailable,
    GPUKernelsError,
    LedgerUnavailable,
    PoolError,
    PoolUnavailable,
)
from gpu_kernels.keeper import KEEPER
from gpu_kernels.provisioner.identity import Identity
from remoting.environment import client_environment, without_gpu

log = logging.getLogger("gpu_kernels")

AWAY = (PoolUnavailable, LedgerUnavailable, AuthenticationUnavailable)
"""Answers that may be different in a moment, unlike a refusal."""

CALL_TIMEOUT_S = 5.0
RETRY_S = 0.5
LOOK_UP_S = 5.0
REFUSAL_VARIABLE = "GPU_KERNELS_REFUSAL"
MAX_REFUSAL = 2000

DEAD_GRACE_S = 30.0
"""How long a kernel without a process keeps its lease: longer than any restart takes, and then it expires."""


class NoSlice(GPUKernelsError):
    """A kernel did not get its slice. JupyterLab shows the text as it is in "Error Starting Kernel"."""

    code = "no_slice"


@dataclass(frozen=True)
class Wish:
    """What a kernel asks of the pool."""

    size: str
    course: str | None
    identity: Identity
    holder: str
    labels: Mapping[str, str]


@dataclass(eq=False)
class HeldLease:
    """A lease in a kernel's hands; the keeper renews it while ``alive`` says that the kernel lives."""

    client: PoolClient
    lease: Lease
    holder: str
    alive: Callable[[], bool]
    gone: str | None = None
    _dead_since: float | None = None
    _released: threading.Lock = field(default_factory=threading.Lock)

    @property
    def lease_id(self) -> str:
        return self.lease.id

    @property
    def epoch(self) -> int:
        return self.lease.epoch

    @property
    def ttl(self) -> float:
        return self.lease.ttl

    def wanted(self) -> bool:
        """Called by the keeper before each renewal."""
        if self.alive():
            self._dead_since = None
            return True
        now = time.monotonic()
        if self._dead_since is None:
            self._dead_since = now
        if now - self._dead_since < DEAD_GRACE_S:
            return True
        log.info("Kernel %s has died for good; GPU lease %s is left to expire.", self.holder, self.lease_id)
        return False

    def lost(self, state: str, reason: str) -> None:
        """Called by the keeper when the controller has ended the lease. The kernel goes on without a GPU."""
        self.gone = reason or state
        # A release (by "change kernel", or of the whole server) was asked for by the user himself.
        level = logging.INFO if state in ("draining", "released") else logging.WARNING
        log.log(
            level, "Kernel %s lost its GPU lease %s (%s): %s", self.holder, self.lease_id, state, self.gone
        )

    def starting(self) -> None:
        """A process is about to be started: the grace for dead kernels begins anew."""
        self._dead_since = None

    def still_in_force(self) -> bool:
        """Ask the controller, by renewing. One that does not answer has not taken anything back."""
        if self.gone is None:
            try:
                for lost in self.client.renew([(self.lease_id, self.epoch)]).lost:
                    KEEPER.forget(self)
                    self.lost(lost.state, lost.reason)
            except PoolError as error:
                log.warning("Cannot ask for GPU lease %s: %s", self.lease_id, error.log_message)
        return self.gone is None

    def release(self) -> None:
        """Give it back, once. Never raises: what cannot be given back expires, since it is kept no longer."""
        if not self._released.acquire(blocking=False):
            return
        KEEPER.forget(self)
        if self.gone is None:
            give_back(self.client, self.lease, self.holder)

    def public(self) -> dict[str, Any]:
        """What may be written down about it."""
        return {
            "id": self.lease.id,
            "epoch": self.lease.epoch,
            "size": self.lease.size,
            "agent": self.lease.agent,
        }


def give_back(client: PoolClient, lease: Lease, holder: str) -> None:
    """Release; a failure is logged, and the lease then expires."""
    try:
        client.release(lease.id, holder)
    except PoolError as error:
        log.warning("GPU lease %s was not released and will expire: %s", lease.id, error.log_message)


def reserve(client: PoolClient, wish: Wish, wait_s: float, abandoned: threading.Event) -> Lease:
    """A lease in force, within ``wait_s`` seconds and one call's time. Raises ``NoSlice`` or the refusal.

    ``abandoned`` may be set by another thread when nobody waits any longer: what was got by then is given
    back.
    """
    end = time.monotonic() + wait_s
    lease = _ask(client, wish, end, abandoned)
    while lease.queued and (left := end - time.monotonic()) > 0 and not abandoned.is_set():
        try:
            lease = client.get(lease.id, wait=min(left, LOOK_UP_S))
        except AWAY:
            abandoned.wait(min(left, RETRY_S))
        except BaseException:
            give_back(client, lease, wish.holder)  # it may be granted by now, and nobody would hold it
            raise
    if lease.in_force and not abandoned.is_set():
        return lease
    told = _why(client, lease) if lease.queued and not abandoned.is_set() else ""
    give_back(client, lease, wish.holder)
    raise NoSlice(_not_in_time(wish, lease, wait_s, told))


def _why(client: PoolClient, lease: Lease) -> str:
    """What the request waited for, in a line; nothing where the controller does not say."""
    try:
        return f"{client.why(lease.id)['text']}\n"
    except PoolError:
        return ""


def _ask(client: PoolClient, wish: Wish, end: float, abandoned: threading.Event) -> Lease:
    """The first answer that is not "away". Asking again is safe: the key makes it the same request."""
    while True:
        left = end - time.monotonic()
        try:
            return client.ask(
                wish.size,
                key=wish.identity.key,
                slot=wish.identity.slot,
                holder=wish.holder,
                course=wish.course,
                wait=max(0.0, left),
                labels=wish.labels,
                preemptible=True,  # %gpu says until when; else GPUs would idle for hours before each class
            )
        except AWAY:
            if left <= 0 or abandoned.wait(min(left, RETRY_S)):
                raise


def _not_in_time(wish: Wish, lease: Lease, wait_s: float, told: str) -> str:
    if not lease.queued:
        return (
            f"The pool took the {wish.size} for this kernel back before it started"
            f" ({lease.reason or lease.state}).\n"
            "Start the kernel again, or choose 'Python 3' to work without a GPU."
        )
    return (
        f"No slice of {wish.size} became free within {wait_s:g} seconds{'' if told else lease.place}.\n"
        f"{told}"
        "Nothing is reserved. Try again in some minutes, choose a smaller slice,\n"
        "or choose 'Python 3' to work without a GPU."
    )


_clients: dict[tuple[str | None, ...], PoolClient] = {}


def client_of_this_process() -> PoolClient:
    """The client that this process's environment describes, one for all kernels: one call then renews them
    all.

    Raises ``PoolUnavailable`` or ``Unauthenticated`` where the environment describes none.
    """
    described = tuple(os.environ.get(name) for name in (CONTROLLER_VARIABLE, *TOKEN_VARIABLES))
    if described not in _clients:
        _clients.setdefault(described, PoolClient.from_environment(timeout=CALL_TIMEOUT_S))
    return _clients[described]


def hold(client: PoolClient, lease: Lease, holder: str, alive: Callable[[], bool]) -> HeldLease:
    """Hold ``lease`` and keep it from now on."""
    held = HeldLease(client, lease, holder, alive)
    KEEPER.keep(client, held)
    return held


def environment(held: HeldLease | None, refusal: str | None, base: Mapping[str, str]) -> dict[str, str]:
    """The environment of a kernel that holds this lease, or that must do without one and can say why."""
    if held is not None:
        env = client_environment(held.lease, base)
        env.pop(REFUSAL_VARIABLE, None)
        return env
    env = without_gpu(base)
    env[REFUSAL_VARIABLE] = (refusal or "")[:MAX_REFUSAL]
    return env


def resume(lease_id: str, holder: str, alive: Callable[[], bool]) -> HeldLease | None:
    """Hold a lease that an earlier process of the same user took; None if it is no longer in force."""
    try:
        client = client_of_this_process()
        lease = client.get(lease_id)
    except PoolError as error:
        log.warning("GPU lease %s cannot be taken up again: %s", lease_id, error.log_message)
        return None
    return hold(client, lease, holder, alive) if lease.in_force else None
