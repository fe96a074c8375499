"""Who is next: first come, first served within what each waits for.

Requests are taken in the order of their turns. One that the pool cannot place now keeps later ones from the
GPU classes it could use, so that small requests do not starve a large one. One that only its own course's
limit holds back keeps nobody: its classmates are held back by the same limit, and others should not wait
for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpu_kernels.pool.policy import quota
from gpu_kernels.pool.policy.model import Ask, Course, Gpu, Placement, Verdict
from gpu_kernels.pool.policy.placement import demands, place, taken
from gpu_kernels.pool.policy.refusals import course_limit, pool_full, unplaceable


def judge(ask: Ask, gpus: Sequence[Gpu], course: Course, closed: frozenset[str] = frozenset()) -> Verdict:
    """Decide one request on its own; GPU classes in ``closed`` are spoken for by earlier requests."""
    possible = demands(ask.size, gpus)
    if not possible:
        return Verdict(refusal=unplaceable(ask.size, gpus))

    def allowed(count_ending: bool) -> bool:
        rooms = {c: quota.room(course, ask, c, count_ending=count_ending) for c in possible}
        return any(asked <= rooms[c] for c, asked in possible.items())

    if not allowed(count_ending=False):
        return Verdict(refusal=course_limit(ask, course, possible))
    if not allowed(count_ending=True):
        return Verdict(refusal=course_limit(ask, course, possible, ending=True), may_wait=True)
    open_gpus = [gpu for gpu in gpus if gpu.gpu_class not in closed]
    placement = place(ask.size, open_gpus, lambda gpu_class: quota.room(course, ask, gpu_class))
    if placement is None:
        return Verdict(refusal=pool_full(ask.size, gpus, queued=bool(closed & set(possible))), may_wait=True)
    return Verdict(placement=placement)


def decide(asks: Iterable[Ask], gpus: Sequence[Gpu], courses: Mapping[str, Course]) -> dict[str, Verdict]:
    """Decide all requests together, in the order of their turns; each sees what those before it were
    given.
    """
    current = dict(courses)
    closed: frozenset[str] = frozenset()
    verdicts: dict[str, Verdict] = {}
    for ask in sorted(asks, key=lambda ask: ask.turn):
        course = current[ask.course]
        verdict = judge(ask, gpus, course, closed)
        verdicts[ask.id] = verdict
        if verdict.placement is not None:
            gpus = taken(gpus, verdict.placement)
            current[ask.course] = quota.charged(course, ask, verdict.placement)
        elif _waits_for_a_gpu(verdict):
            closed |= _wanted(ask, gpus, course)
    return verdicts


def _waits_for_a_gpu(verdict: Verdict) -> bool:
    return verdict.refusal is not None and verdict.refusal.code == "pool_full"


def _wanted(ask: Ask, gpus: Sequence[Gpu], course: Course) -> frozenset[str]:
    asked = demands(ask.size, gpus).items()
    return frozenset(c for c, thousandths in asked if thousandths <= quota.room(course, ask, c))


def positions(turns: Iterable[tuple[int, str]]) -> dict[str, int]:
    """Each waiting request's place in the queue, from 1, by its id; ``turns`` are their turns in any
    order.
    """
    return {ask_id: number for number, (_, ask_id) in enumerate(sorted(turns), start=1)}


def granted(verdicts: Mapping[str, Verdict]) -> dict[str, Placement]:
    return {ask_id: v.placement for ask_id, v in verdicts.items() if v.placement is not None}
