"""Holding and giving back a kernel's lease, in plain threads: nothing here belongs to an event loop."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_kernels.client import CONTROLLER_VARIABLE, TOKEN_VARIABLES, Lease, PoolClient
from gpu_kernels.endings import why_ended
from gpu_kernels.errors import (
    AuthenticationUnavailable,
    GPUKernelsError,
    LedgerUnavailable,
    PoolError,
    PoolUnavailable,
)
from gpu_kernels.identity import Identity
from gpu_kernels.keeper import KEEPER

log = logging.getLogger("gpu_kernels")

AWAY = (PoolUnavailable, LedgerUnavailable, AuthenticationUnavailable)
"""Answers that may be different in a moment, unlike a refusal."""

CALL_TIMEOUT_S = 5.0
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

    def anew(self, size: str | None = None) -> Wish:
        """The same wish under a key of its own, perhaps for another size: it is a new request."""
        identity = replace(self.identity, key=uuid.uuid4().hex)
        return replace(self, identity=identity, size=self.size if size is None else size)


class Life:
    """Whether a kernel lives, with a grace: between two processes of one kernel there is none for a moment.

    ``alive`` says whether the process does.
    """

    def __init__(self, alive: Callable[[], bool]) -> None:
        self._alive = alive
        self._dead_since: float | None = None

    def lasts(self) -> bool:
        """False once there has been no process for the grace."""
        if self._alive():
            self._dead_since = None
            return True
        now = time.monotonic()
        if self._dead_since is None:
            self._dead_since = now
        return now - self._dead_since < DEAD_GRACE_S

    def starting(self) -> None:
        """A process is about to be started: the grace begins anew."""
        self._dead_since = None


@dataclass(eq=False)
class HeldLease:
    """A lease in a kernel's hands; the keeper renews it while the kernel lives."""

    client: PoolClient
    lease: Lease
    holder: str
    life: Life
    on_lost: Callable[[HeldLease], object] | None = None
    gone: str | None = None
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
        if self.life.lasts():
            return True
        log.info("Kernel %s has died for good; GPU lease %s is left to expire.", self.holder, self.lease_id)
        return False

    def lost(self, state: str, reason: str) -> None:
        """Called by the keeper when the controller has ended the lease. The kernel goes on without a GPU."""
        self.gone = why_ended(state, reason)
        # A release (by "change kernel", or of the whole server) was asked for by the user himself.
        level = logging.INFO if state in ("draining", "released") else logging.WARNING
        log.log(
            level, "Kernel %s lost its GPU lease %s (%s): %s", self.holder, self.lease_id, state, self.gone
        )
        if self.on_lost is not None:
            self.on_lost(self)

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


_clients: dict[tuple[str | None, ...], PoolClient] = {}


def client_of_this_process() -> PoolClient:
    """The client that this process's environment describes, one for all kernels: one call then renews them
    all.

    Raises ``PoolUnavailable`` or ``Unauthenticated`` where the environment describes none.
    """
    described = _described()
    if described not in _clients:
        _clients.setdefault(described, PoolClient.from_environment(timeout=CALL_TIMEOUT_S))
    return _clients[described]


def keep_token() -> None:
    """Leave the token to this process's client alone: what is started from now on, by whatever provisioner,
    inherits none. Raises nothing where there is no pool.
    """
    with suppress(PoolError):
        client = client_of_this_process()
        without = (os.environ.get(CONTROLLER_VARIABLE), *(None for _ in TOKEN_VARIABLES))
        _clients[without] = client
    for name in names_of_tokens(os.environ):
        del os.environ[name]
    for name in TOKEN_VARIABLES:
        os.environ.pop(name, None)


def names_of_tokens(env: Mapping[str, str]) -> list[str]:
    """What holds a token for the pool or the hub, under whatever name: the hub gives its token under an older
    one besides.
    """
    tokens = [env[name] for name in TOKEN_VARIABLES if env.get(name)]
    return [name for name, value in env.items() if any(token in value for token in tokens)]


def _described() -> tuple[str | None, ...]:
    return tuple(os.environ.get(name) for name in (CONTROLLER_VARIABLE, *TOKEN_VARIABLES))


def hold(
    client: PoolClient,
    lease: Lease,
    holder: str,
    life: Life,
    on_lost: Callable[[HeldLease], object] | None = None,
) -> HeldLease:
    """Hold ``lease`` and keep it from now on; ``on_lost`` is called when the controller has ended it."""
    held = HeldLease(client, lease, holder, life, on_lost)
    KEEPER.keep(client, held)
    return held
