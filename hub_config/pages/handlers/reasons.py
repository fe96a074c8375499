"""Why the first in the line wait, asked for rarely: each question counts as a request of the visitor's."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable

from gpu_kernels.client import AsyncPoolClient
from gpu_kernels.errors import PoolError
from gpu_kernels.hub_config.pages.handlers import asking

EXPLAINED = 5
KEEP_S = 20.0
MOST_KEPT = 2000


class Reasons:
    """What the controller said shortly, by visitor and lease: a page that is live asks again and again."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], tuple[float, str]] = OrderedDict()

    async def of(self, pool: AsyncPoolClient, visitor: str, waiting: Iterable[str]) -> dict[str, str]:
        """Texts by lease, of the first ``EXPLAINED``; without those of which the controller says nothing."""
        first = list(waiting)[:EXPLAINED]
        texts = await asking.together(*(self._one(pool, visitor, lease) for lease in first))
        return {lease: text for lease, text in zip(first, texts, strict=True) if text}

    async def _one(self, pool: AsyncPoolClient, visitor: str, lease: str) -> str:
        at, text = self._known.get((visitor, lease), (float("-inf"), ""))
        if time.monotonic() - at < KEEP_S:
            return text
        try:
            text = (await pool.why(lease)).text
        except PoolError:
            text = ""  # it waits no longer, or the visitor has asked enough for now
        self._known[visitor, lease] = (time.monotonic(), text)
        self._known.move_to_end((visitor, lease))
        while len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)
        return text
