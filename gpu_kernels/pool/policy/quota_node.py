"""An account's counters of one GPU class; the words are those of ``quota``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_kernels.vocabulary.limits import Limits, least


@dataclass(slots=True)
class Node:
    """An account's counters of one class."""

    parent: Node | None
    limits: Limits
    ceiling: int | None
    guaranteed: int = 0
    demand: int = 0
    use: int = 0

    @property
    def idle(self) -> int:
        """What is guaranteed and not claimed: what the account may take without its parent noticing."""
        return max(0, self.guaranteed - self.demand)

    def add(self, delta: int) -> None:
        """Change the use; each account on the way up sees what its child claims more or less."""
        node: Node | None = self
        claimed = delta
        while node is not None:
            before = max(node.guaranteed, node.demand)
            node.use += delta
            node.demand += claimed
            claimed = max(node.guaranteed, node.demand) - before
            node = node.parent

    def leaves(self, unseen: int) -> int | None:
        """What may be taken here by a descendant that takes the first ``unseen`` of it from guarantees
        below.
        """
        if self.ceiling is None:
            return None
        claimable = self.ceiling - self.demand + unseen
        unclaimed = min(unseen, self.ceiling - self.use)
        return max(claimable, unclaimed) if unclaimed > 0 else claimable


def guarantee(nodes: Sequence[Node]) -> None:
    """Settle what each is guaranteed, parents before children in ``nodes``: an account keeps at least what
    its children are guaranteed; where it cannot have that, its children's guarantees shrink in proportion.
    """
    promised: dict[int, int] = {}
    for node in reversed(nodes):
        node.guaranteed = max(node.guaranteed, promised.get(id(node), 0))
        if node.parent is not None:
            promised[id(node.parent)] = promised.get(id(node.parent), 0) + node.guaranteed
    for node in nodes:
        if node.parent is None:
            node.guaranteed = node.ceiling or 0
            continue
        wished, has = promised[id(node.parent)], node.parent.guaranteed
        if wished > has:
            node.guaranteed = node.guaranteed * has // wished
        node.guaranteed = least(node.guaranteed, node.ceiling) or 0
