"""Getting, keeping and giving back one lease, as scripts: what to do when, without threads and event loops.

**Trust.** A renewal that began at time t and was answered with "ends in e seconds" lets its holder rely on
the lease until t + e, whenever the answer came: the controller counted e from a moment not before t. Once
that time is over without a newer renewal the lease may belong to somebody else. Times are the machine's
since its boot, sleep included: a laptop that was closed has lost its trust.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpu_kernels.client import calls
from gpu_kernels.client.answers import Lease, Renewal, Slot
from gpu_kernels.client.requests import Pause, Script
from gpu_kernels.errors import (
    AuthenticationUnavailable,
    LeaseLost,
    LedgerUnavailable,
    PoolError,
    PoolFull,
    PoolUnavailable,
)

RENEWALS_A_LIFE = 3
RETRIES_A_LIFE = 12
SHORTEST_PERIOD = 0.1
AGAIN = 0.5
AWAY = (PoolUnavailable, LedgerUnavailable, AuthenticationUnavailable)
"""Answers that may be others in a moment, unlike a refusal."""


def boot_time() -> float:
    """Seconds since the machine's boot, also those in which it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for. ``key`` is the holder too, and unique: by it the lease can be found again."""

    size: str
    wait: float
    course: str | None
    slot: Slot
    labels: Mapping[str, str]
    key: str

    @classmethod
    def of(
        cls, size: str, wait: float, course: str | None, slot: Slot | None, labels: Mapping[str, str] | None
    ) -> Wish:
        """With a key of its own; without ``slot``, for a slot of its own on this Jupyter server."""
        key = f"reserve-{uuid.uuid4().hex}"
        if slot is None:
            slot = Slot(os.environ.get("JUPYTERHUB_SERVER_NAME", socket.gethostname()), key)
        return cls(size, wait, course, slot, dict(labels or {}), key)


@dataclass
class Holding:
    """One lease from the wish to its end. ``on_lost`` is called once with the reason, which ``lost`` holds
    then.
    """

    wish: Wish
    on_position: Callable[[Lease], object] | None = None
    on_lost: Callable[[str], object] | None = None
    clock: Callable[[], float] = boot_time
    lease: Lease | None = None
    lost: str | None = None
    trusted_until: float = field(default=float("-inf"))
    next_renewal: float = field(default=float("inf"))

    @property
    def trusted_for(self) -> float:
        """Seconds for which the lease can be relied upon without another word; 0 once it is lost."""
        return 0.0 if self.lost is not None else max(0.0, self.trusted_until - self.clock())

    def get(self) -> Script[Lease]:
        """Ask, and wait in the queue. Raises the refusal, or ``PoolFull`` when the time is over."""
        wish = self.wish
        end = self.clock() + wish.wait
        told: int | None = None
        began = self.clock()
        lease: Lease
        self.lease = lease = yield calls.ask(
            wish.size,
            key=wish.key,
            slot=wish.slot,
            holder=wish.key,
            course=wish.course,
            wait=wish.wait,
            labels=wish.labels,
        )
        waited = lease.queued
        while lease.queued and (left := end - self.clock()) > 0:
            if self.on_position is not None and lease.position != told:
                told = lease.position
                self.on_position(lease)
            began = self.clock()
            try:
                self.lease = lease = yield calls.get(lease.id, wait=left)
            except AWAY:
                yield Pause(min(left, AGAIN))
        if not lease.in_force:
            raise self._not_in_time(lease)
        self._trust(began, lease.expires_in or 0.0)
        if waited:
            # It was granted at some moment of a long poll: without a renewal it might be over already.
            yield from self._renew()
            if self.lost is not None:
                raise self.loss()
        return lease

    def _not_in_time(self, lease: Lease) -> PoolError:
        if not lease.queued and lease.state != "expired":
            why = lease.reason or lease.state
            return PoolFull(f"The {lease.size} was taken back before it could be used: {why}")
        return PoolFull(
            f"No slice of {lease.size} became free within {self.wish.wait:g} seconds{lease.place}.\n"
            "Nothing is reserved. Try again in some minutes, or choose a smaller slice.",
            retry_after=60.0,
        )

    def _trust(self, began: float, expires_in: float) -> None:
        assert self.lease is not None
        self.trusted_until = max(self.trusted_until, began + expires_in)
        self.next_renewal = began + max(SHORTEST_PERIOD, self.lease.ttl / RENEWALS_A_LIFE)

    def wake_in(self) -> float:
        """Seconds until the next renewal is due, or trust ends."""
        return max(0.0, min(self.next_renewal, self.trusted_until) - self.clock())

    def tend(self) -> Script[bool]:
        """What is due now; False once the lease is lost, and nothing more is to be done for it."""
        lease = self.lease
        assert lease is not None
        began = self.clock()
        if began >= self.trusted_until:
            self.lose(f"It could not be renewed for {lease.ttl:g} s, so that it may be over.")
        elif began >= self.next_renewal:
            self.next_renewal = began + max(SHORTEST_PERIOD, lease.ttl / RETRIES_A_LIFE)
            try:
                yield from self._renew()
            except PoolError:
                return self.lost is None  # the next try is due soon, while there is trust left
        return self.lost is None

    def _renew(self) -> Script[None]:
        lease = self.lease
        assert lease is not None
        began = self.clock()
        renewal: Renewal = yield calls.renew([(lease.id, lease.epoch)])
        for gone in renewal.lost:
            self.lose(gone.reason or gone.state)
        if lease.id in renewal.renewed:
            self._trust(began, renewal.renewed[lease.id])

    def lose(self, reason: str) -> None:
        """The lease can no longer be relied upon."""
        if self.lost is None:
            self.lost = reason
            if self.on_lost is not None:
                self.on_lost(reason)

    def check(self) -> None:
        """Raises ``LeaseLost`` once the lease cannot be relied upon."""
        if self.trusted_for <= 0:
            raise self.loss()

    def loss(self) -> LeaseLost:
        assert self.lease is not None
        why = self.lost or "It was not renewed in time."
        return LeaseLost(
            f"The lease of {self.lease.size} is lost: {why}\nAsk for another one to go on.",
            details={"lease": self.lease.id},
        )

    def give_back(self) -> Script[None]:
        """Release what was got, and also what may have been got without our knowing. What cannot be released
        now expires, since it is renewed no longer.
        """
        try:
            if self.lease is None:
                yield from calls.release_holder(self.wish.key)
            else:
                yield calls.release(self.lease.id, self.wish.key)
        except PoolError:
            return
