"""The book as the policy sees it: the scene of a decision, and what each request asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from gpu_kernels.pool.ledger.queries.agenda import leaves_at, stays
from gpu_kernels.pool.ledger.queries.rules import longest_life, ruling
from gpu_kernels.pool.ledger.state.indexes.placement import OPEN, seen
from gpu_kernels.pool.ledger.state.rows import Gpu, Lease
from gpu_kernels.pool.ledger.state.states import Place
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy import model
from gpu_kernels.pool.policy.agenda_model import Stay, Stays
from gpu_kernels.pool.policy.model import Ask
from gpu_kernels.pool.policy.scene import Held, Scene
from gpu_kernels.units import Slice


def scene_of(tx: Transaction, newest: Lease | None = None) -> Scene:
    """The pool as it is now. ``newest``: a request that is not in the book yet."""
    book, site = tx.book, tx.site
    return Scene(
        now=tx.now,
        index=book.places.index,
        tree=book.entitlements.tree,
        shares=book.fair.shares,
        servers=book.places.servers(tx.now, tx.timing.agent_ttl),
        agenda=book.agenda,
        stays=_kept(tx, "stays", stays(tx)),
        expected=_kept(tx, "expected", expected(tx)),
        held=lambda: held(tx),
        ending=lambda course, gpu_class: book.holdings.ending.get(course, {}).get(gpu_class, 0),
        rules=ruling(tx, newest),
        settings=site.settings,
        zone=site.zone,
    )


def _kept(tx: Transaction, name: str, on: Stays) -> Stays:
    """The same, each GPU looked at once while nothing changes."""

    def kept(gpu_id: int) -> Sequence[Stay]:
        found: dict[Any, Sequence[Stay]] = tx.book.memo.at(tx.now)
        key = (name, gpu_id)
        if key not in found:
            found[key] = tuple(on(gpu_id))
        return found[key]

    return kept


def expected(tx: Transaction) -> Stays:
    """The leases on each GPU for looking ahead: what has ended will be confirmed in a moment."""

    def on(gpu_id: int) -> Iterator[Stay]:
        for part in tx.book.held.of(gpu_id).values():
            lease = tx.book.leases[part.lease_id]
            yield Stay(Slice(part.mib, part.thousandths), max(tx.now, leaves_at(lease)))

    return on


def held(tx: Transaction) -> Sequence[Held]:
    """All that is held now, and until when as far as one can look ahead; what ends first in front."""
    found: dict[Any, Sequence[Held]] = tx.book.memo.at(tx.now)
    if "held" not in found:
        found["held"] = sorted(_held(tx), key=lambda held: held.until)
    return found["held"]


def _held(tx: Transaction) -> Iterator[Held]:
    for name in sorted(tx.book.agents):
        for group in (tx.book.in_force.of(name), tx.book.ending.of(name)):
            for lease in group.values():
                yield Held(
                    lease=lease.id,
                    user=lease.user,
                    course=lease.course,
                    gpu_class=lease.gpu_class or "",
                    counted=counted(tx, lease),
                    parts=tuple((p.gpu_id, Slice(p.mib, p.thousandths)) for p in tx.book.parts(lease)),
                    until=max(tx.now, leaves_at(lease)),
                )


def counted(tx: Transaction, lease: Lease) -> int:
    """What the lease counts in its course's quota: a slot counts once, as the larger of its two leases."""
    if lease.window is not None:
        return 0
    if lease.place != Place.REPLACED:
        return lease.thousandths
    new = tx.book.in_slot(lease.user, lease.server, lease.path).get(Place.CURRENT)
    same = new is not None and (new.course, new.gpu_class) == (lease.course, lease.gpu_class)
    if new is None or not same or new.window is not None:
        return lease.thousandths
    return max(0, lease.thousandths - new.thousandths)


def may_overlap(tx: Transaction, user: str) -> bool:
    """Whether the user has not overlapped two leases of a slot for a while."""
    since = tx.now - tx.timing.swap_rest
    return not any((lease.replaced_at or 0) > since for lease in tx.book.swapped.of(user).values())


def ask(tx: Transaction, lease: Lease) -> Ask:
    """A request as the policy sees it, with what the lease it would replace already counts."""
    current = tx.book.by_place.get((lease.user, lease.server, lease.path, Place.CURRENT))
    plain = ask_without_overlap(tx, lease)
    if current is None or current.course != lease.course or current.window is not None:
        return plain
    if not may_overlap(tx, lease.user):
        return plain
    replaces = {current.gpu_class or "": current.thousandths}
    return replace(plain, replaces=replaces, replaced_until=leaves_at(current))


def ask_without_overlap(tx: Transaction, lease: Lease) -> Ask:
    known = tx.book.asks.of(lease)
    life = life_of(tx, lease)
    if known is not None and known.life == life:
        return known
    made = Ask(
        id=lease.id,
        course=lease.course,
        size=lease.size,
        turn=(lease.turn, lease.id),
        user=lease.user,
        life=life,
        asked_at=lease.created_at,
        promised_at=lease.promised_at,
        preemptible=lease.preemptible,
    )
    return tx.book.asks.keep(lease, made) if lease.id in tx.book.leases else made


def life_of(tx: Transaction, lease: Lease) -> int:
    """How many milliseconds the lease may last if it is granted now. A request that took over its slot's turn
    may have taken over that lease's end.
    """
    life = longest_life(tx, lease.course)
    return life if lease.ends_at is None else max(1, min(life, lease.ends_at - tx.now))


def next_turn(tx: Transaction) -> int:
    """A turn after those of all who wait, also of those who came in the same millisecond."""
    last = tx.book.waiting.last()
    return tx.now if last is None else max(tx.now, last.turn + 1)


def policy_gpu(tx: Transaction, gpu: Gpu) -> model.Gpu:
    """One GPU as it is now; it answers where its server takes new leases."""
    agent = tx.book.agents[gpu.agent_name]
    heard = agent.reported_at > tx.now - tx.timing.agent_ttl
    return replace(seen(gpu), answering=heard and agent.standing == OPEN)
