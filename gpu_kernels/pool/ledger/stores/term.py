"""Who is the active controller: one row, and the rules by which it changes hands.

A *term* is a number that grows with every taking, and a random *incarnation*. Each transaction begins with a
look at the row under the writer's lock; a controller whose term is not there any more is deposed and decides
nothing. So the row alone keeps two controllers apart: no clock of theirs takes part in that. The time of the
last renewal only says when a standby may try, and is compared with the store's own clock.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from gpu_kernels.errors import GPUKernelsError
from gpu_kernels.pool.ledger.stores import Deposed, Leading
from gpu_kernels.pool.ledger.stores.database import Connection, Database

RENEW_PARTS = 6
"""A write renews the term when at least this part of its time to live has passed since the last renewal."""


class OtherKey(GPUKernelsError):
    """Controllers of one ledger must make the same secrets."""

    code = "other_key"


@dataclass(frozen=True, slots=True)
class Leader:
    """The row as it stands. ``renewed_at`` 0: the term was given up. ``key_print``: which key the secrets of
    leases are made with.
    """

    term: int
    incarnation: str
    holder: str
    address: str
    key_print: str
    renewed_at: int


class Terms:
    """Reads and writes the row ``leadership``, always within a transaction that the caller began."""

    def __init__(self, database: Database, ttl: int, key_print: str = "") -> None:
        m = database.marker
        self.ttl = ttl
        self._key_print = key_print
        self.query = (
            f"SELECT {database.now}, term, incarnation, holder, address, key_print, renewed_at FROM "
            "(SELECT 1 AS one) AS always LEFT JOIN leadership ON leadership.id = 1"
        )
        """What ``Database.begin`` asks: the time, and the row (NULLs where there is none yet)."""
        self._first = (
            f"INSERT INTO leadership (id, term, incarnation, holder, address, key_print, renewed_at) "
            f"VALUES (1, {m}, {m}, {m}, {m}, {m}, {m})"
        )
        self._next = (
            f"UPDATE leadership SET term = {m}, incarnation = {m}, holder = {m}, address = {m}, "
            f"key_print = {m}, renewed_at = {m} WHERE id = 1"
        )
        self._renew = (
            f"UPDATE leadership SET renewed_at = {m} WHERE id = 1 AND term = {m} AND incarnation = {m}"
        )

    @staticmethod
    def parse(first: Any) -> tuple[int, Leader | None]:
        """The answer to ``query``: the store's time, and who leads."""
        now, term, *rest = first
        return now, None if term is None else Leader(term, *rest)

    def check(self, leader: Leader | None, own: Leading | None) -> None:
        """Raises ``Deposed`` unless ``own`` is the term that stands there."""
        if own is None or leader is None or not self.is_of(leader, own):
            raise deposed(leader)

    @staticmethod
    def is_of(leader: Leader, own: Leading) -> bool:
        return (leader.term, leader.incarnation) == (own.term, own.incarnation)

    def over(self, leader: Leader | None, now: int) -> bool:
        """Whether a standby may take the next term. A clock set back far keeps nobody waiting."""
        return leader is None or abs(now - leader.renewed_at) > self.ttl

    def check_key(self, leader: Leader | None) -> None:
        """Raises ``OtherKey`` where this controller would make other secrets than the one before it."""
        if leader is not None and leader.key_print and self._key_print not in ("", leader.key_print):
            raise OtherKey(
                f"This controller's lease-secret.key is not that of {leader.holder}, which leads or led this "
                "ledger: if it took over, every kernel in the pool would lose its GPU.\n"
                "Copy lease-secret.key from there into this controller's state folder. If it is lost, start "
                "once with --PoolController.other_key=True: the leases in force cannot be used any more."
            )

    def take(
        self, connection: Connection, leader: Leader | None, now: int, holder: str, address: str
    ) -> Leading:
        leading = Leading(leader.term + 1 if leader else 1, secrets.token_hex(8))
        values = (leading.term, leading.incarnation, holder, address, self._key_print, now)
        connection.execute(self._next if leader else self._first, values)
        return leading

    def due(self, renewed_at: int, now: int) -> bool:
        return abs(now - renewed_at) * RENEW_PARTS >= self.ttl

    def renew(self, connection: Connection, own: Leading, now: int) -> None:
        connection.execute(self._renew, (now, own.term, own.incarnation))

    def resign(self, connection: Connection, own: Leading) -> None:
        """Let the next controller take over at once; nothing where the term is another's already."""
        connection.execute(self._renew, (0, own.term, own.incarnation))


def deposed(leader: Leader | None) -> Deposed:
    """What a controller is told that is not the active one."""
    where = f" at {leader.address}" if leader and leader.address else ""
    return Deposed(
        f"This GPU pool controller is on standby; the active one is{where or ' another'}.\n"
        "Try again in a moment.",
        log_message=f"term {leader.term} is held by {leader.holder}{where}"
        if leader
        else "no term was taken",
        retry_after=2.0,
        details={"address": leader.address} if leader and leader.address else None,
    )
