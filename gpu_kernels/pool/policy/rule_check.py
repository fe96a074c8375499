"""Which rule stands against one more lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_kernels.pool.policy.model import RuleBinds
from gpu_kernels.units import Size
from gpu_kernels.vocabulary.rules import GPU_HOUR, Rules, Spent, on_offer


def check(
    course: str, size: Size, demands: Mapping[str, int], rules: Rules, held: int, spent: Sequence[Spent]
) -> RuleBinds | None:
    """The rule that stands against one more lease, if any.

    ``demands``: thousandths that it would take, by class, of all that it might use: none may be too large.
    ``held``: leases that its user has in the course, without one that this would replace. No rule goes away
    by waiting in the queue.
    """
    if rules.paused is not None:
        return RuleBinds("paused", "course", course, 0, 0, says=rules.paused)
    if rules.sizes is not None and not on_offer(size, rules.sizes):
        offered = ", ".join(str(offered) for offered in rules.sizes)
        return RuleBinds("sizes", "course", course, 0, len(rules.sizes), says=offered)
    for gpu_class, asked in sorted(demands.items()):
        largest = rules.largest(gpu_class)
        if largest is not None and asked > largest:
            return RuleBinds("max_size", "user", course, asked, largest, gpu_class=gpu_class)
    if rules.max_leases is not None and held >= rules.max_leases:
        return RuleBinds("max_leases", "user", course, held, rules.max_leases)
    used_up = [budget for budget in spent if budget.amount >= budget.most]
    if not used_up:
        return None
    last = max(used_up, key=lambda budget: (budget.most == 0, budget.until or 0))
    return RuleBinds(
        last.rule,
        last.whose,
        course,
        last.amount / GPU_HOUR,
        last.most / GPU_HOUR,
        until=last.until if last.most else None,
        window=last.window,
    )
