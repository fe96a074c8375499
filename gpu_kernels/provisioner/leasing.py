"""Holding and giving back a kernel's lease, in plain threads: nothing here belongs to an event loop."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from gpu_kernels.client import CONTROLLER_VARIABLE, TOKEN_VARIABLES, Lease, PoolClient
from gpu_kernels.client.keeper import KeptLease, given_back
from gpu_kernels.client.lease_holder import LeaseHolder
from gpu_kernels.endings import why_ended
from gpu_kernels.errors import GPUKernelsError, PoolError

log = logging.getLogger("gpu_kernels")

CALL_TIMEOUT_S = 5.0
DEAD_GRACE_S = 30.0
"""How long a kernel without a process keeps its lease: longer than any restart takes, and then it expires."""


class NoSlice(GPUKernelsError):
    """A kernel did not get its slice. JupyterLab shows the text as it is in "Error Starting Kernel"."""

    code = "no_slice"


class Life:
    """Whether a kernel lives, with a grace: between two processes of one kernel there is none for a moment.

    ``alive`` says whether the process does.
    """

    def __init__(self, alive: Callable[[], bool]) -> None:
        self._alive = alive
        self._dead_since: float | None = None
        self.ended = False
        """Its user has ended it: nothing that is the kernel's is needed any longer."""

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


class HeldLease(KeptLease):
    """A lease in a kernel's hands; the keeper renews it while the kernel lives. ``on_lost`` is called when
    the controller has ended it: the kernel goes on without a GPU.
    """

    def __init__(self, client: PoolClient, holder: LeaseHolder, life: Life) -> None:
        super().__init__(client, holder)
        self.on_lost: Callable[[HeldLease], object] = lambda held: None
        self._life = life
        self._kernel = holder.request.holder
        holder.wanted, holder.on_lost = self._wanted, self._lost

    @property
    def gone(self) -> str | None:
        """Why it is lost, for people; None while it is not."""
        loss = self.holder.loss
        return None if loss is None else why_ended(loss.state, loss.reason)

    def release(self) -> PoolError | None:
        error = super().release()
        if error is not None:
            _note_not_released(self.lease, error)
        return error

    def public(self) -> dict[str, Any]:
        """What may be written down about it."""
        lease = self.lease
        return {"id": lease.id, "epoch": lease.epoch, "size": lease.size, "agent": lease.agent_name}

    def _wanted(self) -> bool:
        if self._life.lasts():
            return True
        log.info("Kernel %s has died for good; GPU lease %s is left to expire.", self._kernel, self.lease.id)
        return False

    def _lost(self, holder: LeaseHolder) -> None:
        assert holder.loss is not None
        state = holder.loss.state
        # A release (by "change kernel", or of the whole server) was asked for by the user himself.
        level = logging.INFO if state in ("draining", "released") else logging.WARNING
        log.log(
            level, "Kernel %s lost its GPU lease %s (%s): %s", self._kernel, self.lease.id, state, self.gone
        )
        self.on_lost(self)


def give_back(client: PoolClient, holder: LeaseHolder, life: Life) -> None:
    """Release; a failure is logged, and the lease then expires."""
    error = given_back(client, holder, everything=life.ended)
    if error is not None and holder.lease is not None:
        _note_not_released(holder.lease, error)


def _note_not_released(lease: Lease, error: PoolError) -> None:
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
