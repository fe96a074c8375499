"""Why a request was refused, or waits: one sentence for who asked, everything for who runs the pool.

A student reads what is short, how much, until when, and what helps; never another user's name. An admin reads
what the decision compared: the quotas from the root to the course, the shares of all siblings on the way,
the GPUs, and who goes before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from gpu_kernels.errors import Refused
from gpu_kernels.pool.policy import refusals, rule_refusals
from gpu_kernels.pool.policy.model import Ask, Fact, Gpu, Impossible, QuotaBinds, RuleBinds, TooFull, Verdict
from gpu_kernels.pool.policy.queue import Decision, Pass
from gpu_kernels.pool.policy.scene import Scene
from gpu_kernels.units import slice_of, thousandths_text

MOST_GPUS = 200
MOST_AHEAD = 50
MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def refusal(ask: Ask, verdict: Verdict, scene: Scene) -> Refused:
    """The error for who asked, of a verdict with its facts."""
    facts = verdict.facts
    if any(isinstance(fact, Impossible) for fact in facts):
        return refusals.unplaceable(ask.size, scene.index.gpus())
    quota = _nearest(facts)
    if quota is not None and len([f for f in facts if isinstance(f, QuotaBinds)]) == len(
        _classes(ask, scene)
    ):
        return refusals.over_quota(ask, quota, _shares(ask.course, scene))
    rule = next((fact for fact in facts if isinstance(fact, RuleBinds)), None)
    if rule is not None:
        return rule_refusals.refusal(rule, ask.size, scene.now, scene.zone)
    return refusals.pool_is_full(ask.size, facts)


def _nearest(facts: Sequence[Fact]) -> QuotaBinds | None:
    """Of the quotas that stand against it the one that lacks least."""
    quotas = [fact for fact in facts if isinstance(fact, QuotaBinds)]
    return min(quotas, key=lambda fact: (fact.asked - fact.most, fact.gpu_class), default=None)


def _classes(ask: Ask, scene: Scene) -> Mapping[str, int]:
    return scene.index.demands(ask.size)


def _shares(course: str, scene: Scene) -> dict[str, int | None]:
    classes = scene.tree.classes(course) if course in scene.tree else ()
    return {c: scene.tree.limits(course, c).ceiling for c in classes}


def told(
    ask: Ask, verdict: Verdict, scene: Scene, *, position: int, starts_at: int | None, waiting: int
) -> str:
    """One sentence (and what helps) for the owner of a request that waits.

    ``position`` counts from 1. ``starts_at``: the predicted start, None where nobody knows.
    """
    if verdict.placement is not None:
        return f"Your request for {ask.size} is being granted just now."
    if any(isinstance(fact, RuleBinds | Impossible) for fact in verdict.facts):
        return refusal(ask, verdict, scene).message.replace("\n", " ")
    place = "You are next" if position == 1 else f"You are number {position} of {waiting}"
    return f"{place} in the line for {ask.size}: {_short(ask, verdict)} {_when(verdict, scene, starts_at)}"


def _short(ask: Ask, verdict: Verdict) -> str:
    quota = _nearest(verdict.facts)
    if quota is not None and not any(isinstance(fact, TooFull) for fact in verdict.facts):
        most = thousandths_text(quota.most, quota.gpu_class)
        held = thousandths_text(quota.held, quota.gpu_class).removesuffix(f" {quota.gpu_class}")
        if quota.kind == "institution":
            return (
                f"{held} of the pool's {quota.gpu_class} is in use, and the rest is guaranteed to other "
                "courses."
            )
        return f"{quota.account} holds {held} of the {most} that it may hold at once."
    message = refusals.pool_is_full(ask.size, verdict.facts).message.splitlines()
    first = message[0].rpartition(": ")[2]
    return f"{first} {message[1]}"


def _when(verdict: Verdict, scene: Scene, starts_at: int | None) -> str:
    promise = verdict.promise
    if promise is not None:
        return (
            f"You get it {in_about(promise.at - scene.now)} at the latest: that is promised to you. It comes "
            "earlier when others shut down their GPU kernels."
        )
    if starts_at is not None:
        return (
            f"It is your turn {in_about(starts_at - scene.now)} by the present forecast; earlier when others "
            "shut down their GPU kernels, or if you choose a smaller size."
        )
    full = [fact for fact in verdict.facts if isinstance(fact, TooFull)]
    if full and not any(fact.gpus for fact in full):
        return (
            f"Nobody can say yet when it is your turn. Ask the pool's administrator, {refusals.WITHOUT_GPU}"
        )
    return (
        "Nobody can say yet when it is your turn: it depends on when others shut down their GPU kernels. "
        f"Choose a smaller size, {refusals.WITHOUT_GPU}"
    )


def in_about(milliseconds: int) -> str:
    """``in about 20 minutes``."""
    if milliseconds < MINUTE:
        return "within a minute"
    for unit, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        if milliseconds >= (2 if name != "minute" else 1) * unit:
            number = -(-milliseconds // unit)
            return f"in about {number} {name}{'s' if number != 1 else ''}"
    raise AssertionError(milliseconds)


def in_full(ask: Ask, decision: Decision, scene: Scene, asks: Mapping[str, Ask]) -> dict[str, Any]:
    """Everything that the decision compared for the ask, for who runs the pool; JSON."""
    verdict = decision.verdicts[ask.id]
    deciding = Pass(scene)
    placement = verdict.placement
    ahead = [asks[other] for other in _before(decision, ask.id)]
    return {
        "request": {
            "id": ask.id,
            "user": ask.user,
            "course": ask.course,
            "size": str(ask.size),
            "asked_at": ask.asked_at,
            "life": ask.life,
            "promised_at": ask.promised_at,
        },
        "now": scene.now,
        "granted": None if placement is None else _placement(placement.agent, placement.parts),
        "held_by": verdict.held_by or None,
        "may_wait": verdict.may_wait,
        "facts": [{"fact": type(fact).__name__, **asdict(fact)} for fact in verdict.facts],
        "promise": None if verdict.promise is None else asdict(verdict.promise),
        "ahead": [
            {"id": a.id, "user": a.user, "course": a.course, "size": str(a.size)} for a in ahead[:MOST_AHEAD]
        ],
        "shares": shares_compared(ask, scene),
        "quota": {
            c: [asdict(level) for level in scene.tree.levels(ask.course, c)]
            for c in _classes(ask, scene)
            if ask.course in scene.tree
        },
        "gpus": gpus_considered(ask, deciding),
        "promises": [asdict(promise) for promise in decision.promises.values()],
    }


def _before(decision: Decision, ask_id: str) -> list[str]:
    line = list(decision.verdicts)
    return line[: line.index(ask_id)]


def _placement(agent: str, parts: Sequence[tuple[Gpu, Any]]) -> dict[str, Any]:
    return {
        "agent": agent,
        "parts": [{"gpu": g.id, "mib": p.mib, "thousandths": p.thousandths} for g, p in parts],
    }


def shares_compared(ask: Ask, scene: Scene) -> list[dict[str, Any]]:
    """Level by level from the root: the account on the way to the ask, and the siblings it is compared with,
    lowest share first.
    """
    shares, now = scene.shares, scene.now
    levels: list[dict[str, Any]] = []
    path = [*shares.path(ask.course), None]
    for name, parent in reversed(list(pairwise(path))):
        of_siblings = {sibling: shares.share(sibling, "", now) for sibling in shares.children(parent)}
        levels.append({"of": parent, "this": name, "shares": _lowest_first("account", of_siblings)})
    of_users = {user: shares.share(ask.course, user, now) for user in {ask.user, *shares.users(ask.course)}}
    levels.append({"of": ask.course, "this": ask.user, "shares": _lowest_first("user", of_users)})
    return levels


def _lowest_first(what: str, shares: Mapping[str, float]) -> list[dict[str, Any]]:
    ordered = sorted(shares.items(), key=lambda item: (item[1], item[0]))
    return [{what: name, "share": share} for name, share in ordered[:MOST_AHEAD]]


def gpus_considered(ask: Ask, deciding: Pass) -> list[dict[str, Any]]:
    """The GPUs of the ask's classes with what is free and what keeps it from each, fullest last."""
    scene, until = deciding.scene, deciding.scene.now + ask.life
    seats = scene.agenda.held_for(scene.now, until, scene.stays)
    found: list[dict[str, Any]] = []
    for gpu in sorted(scene.index.gpus(), key=lambda g: (-g.free_thousandths, -g.free_mib, g.id)):
        if ask.size.gpu_class not in (None, gpu.gpu_class):
            continue
        part, server, seat = (
            slice_of(ask.size, gpu.allocatable_mib),
            scene.servers.get(gpu.agent),
            seats.get(gpu.id),
        )
        why = None
        if not gpu.could_hold(part):
            why = "too small"
        elif not scene.answers(gpu):
            why = "silent"
        elif server is not None and not server.takes(until):
            why = server.standing if server.standing != "open" else "ends too early"
        elif not gpu.holds(part):
            why = "too full"
        elif seat is not None and not gpu.with_part(seat).holds(part):
            why = "kept for a class hour"
        found.append(
            {
                "gpu": gpu.id,
                "agent": gpu.agent,
                "gpu_class": gpu.gpu_class,
                "free_thousandths": gpu.free_thousandths,
                "free_mib": gpu.free_mib,
                "needs_thousandths": part.thousandths,
                "needs_mib": part.mib,
                "why_not": why,
            }
        )
    return found[:MOST_GPUS]
