"""Why a lease waits, and when each that waits will start."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_kernels.pool.ledger.queries.scene import ask, scene_of
from gpu_kernels.pool.ledger.queries.times import iso
from gpu_kernels.pool.ledger.state.indexes.forecasts import FRESH, STALE
from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.pool.ledger.state.states import FINAL, IN_FORCE, State
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy import why
from gpu_kernels.pool.policy.forecast import forecast
from gpu_kernels.pool.policy.model import Ask
from gpu_kernels.pool.policy.queue import Decision, decide
from gpu_kernels.pool.policy.scene import Scene
from gpu_kernels.resources.leases import Why


def starts(tx: Transaction) -> Mapping[str, int]:
    """When each waiting request will start as far as that is known, by its id. It may be a little old."""
    known = tx.book.forecasts
    age = tx.now - known.made_at
    changed = known.line is not tx.line and age >= FRESH * len(tx.line)
    if known.starts is None or changed or not 0 <= age < STALE:
        scene, asks = scene_of(tx), _asks(tx)
        decision = decide(asks.values(), scene)
        line = [asks[ask_id] for ask_id in decision.waiting]
        known.starts = forecast(line, scene, decision.promises) if line else {}
        known.made_at, known.line = tx.now, tx.line
    return known.starts


def _asks(tx: Transaction) -> dict[str, Ask]:
    return {lease.id: ask(tx, lease) for lease in tx.book.waiting}


def explain(tx: Transaction, lease: Lease) -> Why:
    """Why the lease waits, in full; of one that does not, what became of it."""
    if lease.state != State.QUEUED:
        return Why(
            id=lease.id, state=str(lease.state), text=_not_waiting(tx, lease), position=None, waiting=0
        )
    scene, asks = scene_of(tx), _asks(tx)
    decision = decide(asks.values(), scene, frozenset({lease.id}))
    predicted = forecast([asks[ask_id] for ask_id in decision.waiting], scene, decision.promises)
    return _of_waiting(asks[lease.id], asks, scene, decision, predicted.get(lease.id))


def _of_waiting(
    wanted: Ask, asks: Mapping[str, Ask], scene: Scene, decision: Decision, starts_at: int | None
) -> Why:
    verdict = decision.verdicts[wanted.id]
    places = {ask_id: place for place, ask_id in enumerate(decision.waiting, start=1)}
    position = places.get(wanted.id, 1)
    text = why.told(
        wanted, verdict, scene, position=position, starts_at=starts_at, waiting=len(decision.waiting)
    )
    return Why(
        id=wanted.id,
        state=str(State.QUEUED),
        text=text,
        position=position,
        waiting=len(decision.waiting),
        starts_at=None if starts_at is None else iso(starts_at),
        promised_for=None if verdict.promise is None else iso(verdict.promise.at),
        full={**why.in_full(wanted, decision, scene, asks), "predicted_start": starts_at},
    )


def _not_waiting(tx: Transaction, lease: Lease) -> str:
    if lease.state in IN_FORCE:
        ends = (
            "" if lease.ends_at is None else f" It ends {why.in_about(lease.ends_at - tx.now)} at the latest."
        )
        return f"Your lease of {lease.size} waits for nothing: it is in force.{ends}"
    reason = lease.reason or "Its user gave it back."
    if lease.state in FINAL:
        return f"Your lease of {lease.size} is over. {reason}"
    return f"Your lease of {lease.size} is ending. {reason}"
