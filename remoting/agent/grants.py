"""What this agent may serve now. Pure: no I/O, and the time is always passed in.

The controller names the full set each time, so the state here is a function of the newest set and of the
*floors*: for each lease the lowest epoch that may still be served. A floor rises to the epoch when a lease
is granted and above it when it ends, and never sinks. So a repeated set changes nothing, an older one (its
``target_seq`` is lower) is dropped, and a ledger restored from a backup cannot bring an ended lease back.
A set may tell what we know by name alone; a name that we do not know puts us *in doubt*.

A grant lapses at its ``deadline`` on this machine's clock, counted from the *start* of the request that
brought it and the time that the controller held that, and so never later than the controller lets it expire.
All lapse at ``trusted_until``, which is
``fences_after`` from the start of the last acknowledged report. They are in force again when a newer report
says so.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpu_kernels.client import AssignedLease, Assignment, LeaseSlice
from gpu_kernels.remoting.hello import Hello, Refusal, Status

REMEMBERED_ENDS = 1024
REMEMBERED_FLOORS = 10_000
"""The newest. Lease ids are random: an old one comes again only by a ledger restored from a backup."""
NOT_KNOWN = (
    "This GPU server does not know the lease, or the secret is not the lease's.\n"
    "The slice may have been taken back: restart the kernel to get a new one."
)
ENDED = "The lease has ended and its slice of the GPU was given back.\nRestart the kernel to get a new one."
SUPERSEDED = "A newer lease has taken this one's place.\nRestart the kernel to use the new one."
LAPSED = (
    "The GPU server has lost touch with the pool and stopped what ran on this lease.\n"
    "Try again in a minute; restart the kernel if that does not help."
)


@dataclass(frozen=True, slots=True)
class Grant:
    """The right of whoever knows the secret to these slices, until ``deadline`` (seconds of our clock)."""

    lease_id: str
    epoch: int
    secret_sha256: bytes = field(repr=False)
    slices: tuple[LeaseSlice, ...]
    deadline: float

    @property
    def key(self) -> tuple[str, int]:
        return self.lease_id, self.epoch


@dataclass(frozen=True, slots=True)
class Change:
    """What a set changes: grants that ended, whether ``floors`` must be kept on disk before the next report
    confirms that, and what the controller named that cannot be served, with the reason."""

    ended: tuple[Grant, ...]
    floors_raised: bool
    refused: tuple[str, ...]


def told_at(started_at: float, held: float, answered_at: float) -> float:
    """When the controller counted what it answered, or before: it had the request no earlier than that was
    started, and counted before the answer was here. What is no such time is worth nothing.
    """
    return min(started_at + held, answered_at) if held > 0 else started_at


class Grants:
    def __init__(
        self,
        gpu_uuids: Iterable[str],
        floors: Mapping[str, int],
        *,
        highest_epoch: int = 0,
        fences_after: float = math.inf,
    ) -> None:
        """``fences_after``: seconds without an acknowledged report after which nothing is served."""
        self.applied_seq = 0
        self.incarnation = ""
        self.in_doubt = True
        """Whether the next answer must be the full set."""
        self.trusted_until = -math.inf
        self.floors = dict(floors)
        self.highest_epoch = highest_epoch
        self._fences_after = fences_after
        self._gpus = frozenset(gpu_uuids)
        self._by_id: dict[str, Grant] = {}
        self._refused: set[tuple[str, int]] = set()
        # Only to tell the owner of an ended lease what became of it; bounded, and never grants anything.
        self._ended: OrderedDict[tuple[str, int], tuple[bytes, Status, str]] = OrderedDict()

    def forget_sequence(self) -> None:
        """The controller counts anew (we have registered again): the next set is the newest."""
        self.applied_seq = 0
        self.in_doubt = True

    def apply(
        self, assignment: Assignment, anchored_at: float, answered_at: float | None = None
    ) -> Change | None:
        """Take over a set; None if it is older than the one in force, or says too little to be understood.

        ``anchored_at`` is when the request that brought it was started, ``answered_at`` when the answer was
        there; without it, the time that the controller held the request is not counted on. Raises
        ``TypeError`` for a set that makes no sense, and changes nothing then.
        """
        if type(assignment.target_seq) is not int:
            raise TypeError(f"a set's number cannot be {assignment.target_seq!r}")
        ours = assignment.incarnation == self.incarnation
        if not ours and not assignment.in_full:
            self.in_doubt = True
            return None
        if ours and assignment.target_seq < self.applied_seq:
            return None
        answered_at = anchored_at if answered_at is None else answered_at
        counted_at = told_at(anchored_at, assignment.held, answered_at)
        wanted, unknown = self._named(assignment.lives or (), counted_at)
        refused = []
        for lease in assignment.told:
            grant, why = self._grant(lease, counted_at)
            if grant is None:
                refused.append(why)
                self._refused.add((lease.id, lease.epoch))
            else:
                wanted[grant.lease_id] = grant
        ended = tuple(
            old
            for old in self._by_id.values()
            if old.lease_id not in wanted or wanted[old.lease_id].key != old.key
        )
        raised = self._raise_floors(wanted.values(), ended)
        for grant in ended:
            newer = grant.lease_id in wanted
            self._remember_end(
                grant, Status.OLD_EPOCH if newer else Status.LEASE_ENDED, SUPERSEDED if newer else ENDED
            )
        self._by_id = wanted
        self.applied_seq, self.incarnation = assignment.target_seq, assignment.incarnation
        self.in_doubt = unknown
        self.trusted_until = anchored_at + self._fences_after
        return Change(ended, raised, tuple(refused))

    def _named(
        self, lives: Iterable[tuple[str, int, float]], counted_at: float
    ) -> tuple[dict[str, Grant], bool]:
        """What we know of these, with their new deadlines, and whether there were others. What was refused
        is known: asking for it again would bring the same."""
        known: dict[str, Grant] = {}
        refused: set[tuple[str, int]] = set()
        unknown = False
        for lease_id, epoch, expires_in in lives:
            grant = self._by_id.get(lease_id)
            if grant is not None and grant.epoch == epoch:
                known[lease_id] = replace(grant, deadline=counted_at + expires_in)
            elif (lease_id, epoch) in self._refused:
                refused.add((lease_id, epoch))
            else:
                unknown = True
        self._refused = refused
        return known, unknown

    def drop_all(self) -> None:
        """Serve nothing until the next set; no lease is held to have ended."""
        self._by_id = {}

    def serves(self, key: tuple[str, int], now: float) -> bool:
        return self.served_until(key) > now

    def served_until(self, key: tuple[str, int]) -> float:
        """When this lapses without another word; minus infinity for what is not in force."""
        grant = self._by_id.get(key[0])
        if grant is None or grant.key != key:
            return -math.inf
        return min(grant.deadline, self.trusted_until)

    def next_deadline(self) -> float | None:
        """When the first of all grants lapses or has lapsed."""
        first = min((grant.deadline for grant in self._by_id.values()), default=None)
        return None if first is None else min(first, self.trusted_until)

    def admit(self, hello: Hello, now: float) -> Grant:
        """The grant that a Hello proves. Raises ``Refusal``.

        Without the secret nothing is told but ``NOT_KNOWN``, whatever the lease id is.
        """
        digest = hashlib.sha256(hello.secret).digest()
        grant = self._by_id.get(hello.lease_id)
        proven = hmac.compare_digest(digest, grant.secret_sha256 if grant is not None else bytes(32))
        if grant is not None and proven:
            if hello.epoch != grant.epoch:
                raise Refusal(Status.OLD_EPOCH, SUPERSEDED)
            if not self.serves(grant.key, now):
                raise Refusal(Status.LEASE_ENDED, LAPSED)
            return grant
        past = self._ended.get((hello.lease_id, hello.epoch))
        if past is not None and hmac.compare_digest(digest, past[0]):
            raise Refusal(past[1], past[2])
        raise Refusal(Status.UNKNOWN_LEASE, NOT_KNOWN)

    def _grant(self, lease: AssignedLease, counted_at: float) -> tuple[Grant | None, str]:
        if lease.epoch < self.floors.get(lease.id, 0):
            return None, f"lease {lease.id} has epoch {lease.epoch}, which has already ended here"
        unknown = [part.gpu for part in lease.slices if part.gpu not in self._gpus]
        if unknown or not lease.slices:
            return None, f"lease {lease.id} is for GPUs that are not here: {', '.join(unknown) or 'none'}"
        try:
            digest = bytes.fromhex(lease.secret_sha256)
        except ValueError:
            digest = b""
        if len(digest) != 32:
            return None, f"lease {lease.id} came without the digest of its secret"
        return Grant(lease.id, lease.epoch, digest, lease.slices, counted_at + lease.expires_in), ""

    def _raise_floors(self, wanted: Iterable[Grant], ended: Iterable[Grant]) -> bool:
        wanted = list(wanted)
        raised = {grant.lease_id: grant.epoch + 1 for grant in ended}
        raised |= {grant.lease_id: grant.epoch for grant in wanted}
        raised = {name: floor for name, floor in raised.items() if floor > self.floors.get(name, -1)}
        for lease_id, floor in raised.items():
            self.floors.pop(lease_id, None)  # so that it moves to the end, as the newest
            self.floors[lease_id] = floor
        self.highest_epoch = max((self.highest_epoch, *(grant.epoch for grant in wanted)))
        for lease_id in list(self.floors)[: max(0, len(self.floors) - REMEMBERED_FLOORS)]:
            del self.floors[lease_id]
        return bool(raised)

    def _remember_end(self, grant: Grant, status: Status, text: str) -> None:
        self._ended[grant.key] = (grant.secret_sha256, status, text)
        while len(self._ended) > REMEMBERED_ENDS:
            self._ended.popitem(last=False)
