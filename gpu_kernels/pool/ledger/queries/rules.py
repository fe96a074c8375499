"""The rules in force, asked of the book: for a request, and for a lease in force."""

from __future__ import annotations

from collections.abc import Callable

from gpu_kernels.pool.ledger.state.capacity import takes_slices
from gpu_kernels.pool.ledger.state.rows import Lease
from gpu_kernels.pool.ledger.state.states import IN_FORCE, Place
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.model import Ask, RuleBinds
from gpu_kernels.pool.policy.rule_check import check
from gpu_kernels.units import Size, slice_of
from gpu_kernels.vocabulary.rules import Rules


def ruling(tx: Transaction, newest: Lease | None = None) -> Callable[[Ask, int], RuleBinds | None]:
    """What stands against a request, where its user was just given so many more leases than the book has.

    For one pass over the queue. ``newest``: a request that is not in the book yet.
    """
    demands: dict[Size, dict[str, int]] = {}

    def binds(ask: Ask, given: int) -> RuleBinds | None:
        rules = tx.book.entitlements.rules(ask.course).of(ask.user, tx.now)
        if rules == _beside_requests(rules):
            return None
        if ask.size not in demands:
            demands[ask.size] = _demands(tx, ask.size)
        spent = tx.book.entitlements.budgets.spent(ask.course, ask.user, rules, tx.now)
        request = newest if newest is not None and newest.id == ask.id else tx.book.leases.get(ask.id)
        held = given + _held(tx, ask, request)
        return check(ask.course, ask.size, demands[ask.size], rules, held, spent)

    return binds


def _beside_requests(rules: Rules) -> Rules:
    """Those of the rules that never stand against a request."""
    return Rules(
        course_limit=rules.course_limit,
        class_hours_per_week=rules.class_hours_per_week,
        longest_life=rules.longest_life,
        idle=rules.idle,
    )


def longest_life(tx: Transaction, course: str) -> int:
    """After how many milliseconds a lease of the course ends, however it is renewed."""
    own = tx.book.entitlements.rules(course).longest_life
    return tx.timing.longest_life if own is None else min(own, tx.timing.longest_life)


def idle_after(tx: Transaction, course: str) -> int | None:
    """After how many milliseconds without a launch a lease of the course may be taken back; None for
    never.
    """
    return tx.book.entitlements.rules(course).idle


def idle_for(tx: Transaction, lease: Lease) -> int | None:
    """For how many milliseconds a lease in force has run nothing, as of its server's last word."""
    if lease.state not in IN_FORCE:
        return None
    agent = tx.book.agents[lease.agent_name or ""]
    return max(0, agent.reported_at - (lease.busy_at or lease.granted_at or tx.now))


def _held(tx: Transaction, ask: Ask, request: Lease | None) -> int:
    """The leases that the user has in the course, but for the one in the request's own slot."""
    slot = None if request is None else (request.server, request.path)
    return sum(
        lease.course == ask.course
        and lease.state in IN_FORCE
        and lease.place == Place.CURRENT
        and (lease.server, lease.path) != slot
        for lease in tx.book.living.of(ask.user).values()
    )


def _demands(tx: Transaction, size: Size) -> dict[str, int]:
    """By GPU class, the most thousandths that the size takes of GPUs there."""
    found: dict[str, int] = {}
    for gpu in tx.book.gpus.values():
        if takes_slices(gpu) and gpu.offered_mib > 0 and size.gpu_class in (None, gpu.gpu_class):
            share = slice_of(size, gpu.offered_mib).thousandths * size.count
            found[gpu.gpu_class] = max(found.get(gpu.gpu_class, 0), share)
    return found
