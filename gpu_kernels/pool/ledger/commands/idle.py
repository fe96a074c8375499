"""Idle leases are taken back: where the course's rules allow it, once somebody waits who could use one; or by
an instructor of the course.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_kernels.durations import duration
from gpu_kernels.pool.ledger.commands.termination import ASK_ANEW, revoke
from gpu_kernels.pool.ledger.queries.courses import check_course
from gpu_kernels.pool.ledger.queries.rules import idle_after, idle_for
from gpu_kernels.pool.ledger.queries.scene import ask, scene_of
from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.pool.ledger.state.states import Who
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.queue import GPUS, QUOTA, decide

IDLE = f"Taken back: it had run nothing for {{minutes}} minutes, and others were waiting.\n{ASK_ANEW}"
ENDED_IDLE = f"Taken back by {{actor}}: it had run nothing for {{lasted}}.\n{ASK_ANEW}"


def reclaim(tx: Transaction, most: int) -> int:
    """End idle leases for those who wait, the longest idle first; ``most`` at once, and no more than it
    takes. How many.

    What is ending already counts as coming free. A request that only its own course's quota holds back is
    helped by that course's leases alone.
    """
    if not len(tx.book.waiting):
        return 0
    idle = sorted(_idle(tx), key=lambda found: (-found[0], found[1].id))
    if not idle:
        return 0
    wanted = _wanted(tx)
    ended = 0
    for since, lease in idle:
        needs = [need for need in wanted if need.helped_by(lease)]
        if ended >= most or not needs:
            continue
        reason = IDLE.format(minutes=max(1, since // 60_000))
        revoke(tx, lease, who=Who.DECISION, actor="clock", reason=reason)
        needs[0].amount -= lease.thousandths
        ended += 1
    return ended


class _Need:
    """What one waiting request lacks of a GPU class."""

    def __init__(self, gpu_class: str, amount: int, course: str | None) -> None:
        self.gpu_class, self.amount, self.course = gpu_class, amount, course

    def helped_by(self, lease: Lease) -> bool:
        own = self.course in (None, lease.course)
        return own and self.amount > 0 and lease.gpu_class == self.gpu_class


def _idle(tx: Transaction) -> Iterator[tuple[int, Lease]]:
    """Leases that have run nothing for as long as their course allows, and for how long, as of their
    servers' last word.
    """
    allowed = {course: idle_after(tx, course) for course in list(tx.book.holdings.settled)}
    if not any(value is not None for value in allowed.values()):
        return
    for agent in tx.book.agents.values():
        for lease in tx.book.in_force.of(agent.name).values():
            longest = allowed.get(lease.course)
            since = idle_for(tx, lease) or 0
            if longest is not None and lease.window is None and since >= longest:
                yield since, lease


def _wanted(tx: Transaction) -> list[_Need]:
    """What those who wait lack, in their order."""
    scene = scene_of(tx)
    asks = {lease.id: ask(tx, lease) for lease in tx.book.waiting}
    decision = decide(asks.values(), scene)
    coming: dict[str, int] = {}
    for by_class in tx.book.holdings.ending.values():
        for gpu_class, thousandths in by_class.items():
            coming[gpu_class] = coming.get(gpu_class, 0) + thousandths
    needs = []
    for lease_id in decision.waiting:
        held_by, request = decision.verdicts[lease_id].held_by, asks[lease_id]
        demands = scene.index.demands(request.size)
        if held_by not in (GPUS, QUOTA) or not demands:
            continue
        gpu_class = min(demands, key=lambda name: (demands[name], name))
        covered = min(demands[gpu_class], coming.get(gpu_class, 0))
        coming[gpu_class] = coming.get(gpu_class, 0) - covered
        course = request.course if held_by == QUOTA else None
        needs.append(_Need(gpu_class, demands[gpu_class] - covered, course))
    return needs


def end_idle(tx: Transaction, name: str, longest: int, *, actor: str) -> list[Lease]:
    """Take back the course's leases that have run nothing for ``longest`` milliseconds; as they are then.
    Leases of a class hour stay while the class is on. Raises ``UnknownCourse``.
    """
    check_course(tx, name)
    ended = []
    for agent in list(tx.book.agents):
        for lease in list(tx.book.in_force.of(agent).values()):
            if lease.course != name or lease.window is not None:
                continue
            idle = idle_for(tx, lease)
            if idle is None or idle < longest:
                continue
            reason = ENDED_IDLE.format(actor=actor, lasted=duration(idle / 1000))
            ended.append(revoke(tx, lease, who=Who.ADMIN, actor=actor, reason=reason))
    return ended
