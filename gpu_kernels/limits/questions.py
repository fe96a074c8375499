"""The rate at which strangers make us ask somebody else who they are.

Each token that nobody has vouched for costs a question to the hub, so questions are bounded by peer, in all,
and in how many are open at once. One peer may have no more open than are left: however many it asks while the
hub is slow, as many are left for others. What the answer vouches for counts for nothing: a class that begins,
or a controller that starts again, is not slowed down; only wrong tokens use a rate up.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from gpu_kernels.limits.rates import TokenBucket

MOST_PEERS = 4096
SOON_S = 1.0
"""When to ask again where too many questions are open at once."""


class TooFast(Exception):
    """Not now; ``again`` is in how many seconds."""

    def __init__(self, again: float) -> None:
        super().__init__(f"again in {again:g} s")
        self.again = again


@dataclass(frozen=True, slots=True)
class Rates:
    """Wrong tokens in a minute, also the most at once; ``open``: questions that are not answered yet."""

    of_peer: float = 1200.0
    in_all: float = 2400.0
    open: int = 64


USUAL = Rates()


class Questions:
    """Belongs to one event loop."""

    def __init__(self, rates: Rates = USUAL, clock: Callable[[], float] = time.monotonic) -> None:
        self._rates, self._clock = rates, clock
        self._all = TokenBucket(rates.in_all, rates.in_all / 60, clock)
        self._peers: OrderedDict[str, TokenBucket] = OrderedDict()
        self._open: Counter[str] = Counter()

    def begin(self, peer: str) -> None:
        """A question is about to be asked for that peer; ``end`` must follow. Raises ``TooFast``."""
        if self._open[peer] >= self._rates.open - self._open.total():
            raise TooFast(SOON_S)
        own = self._bucket(peer)
        if again := own.take():
            raise TooFast(again)
        if again := self._all.take():
            own.put_back()
            raise TooFast(again)
        self._open[peer] += 1

    def end(self, peer: str, *, good: bool) -> None:
        """It is answered, or will not be. ``good``: whether somebody vouches for the token."""
        self._open[peer] -= 1
        if not self._open[peer]:
            del self._open[peer]
        if good:
            self._bucket(peer).put_back()
            self._all.put_back()

    def _bucket(self, peer: str) -> TokenBucket:
        bucket = self._peers.get(peer)
        if bucket is None:
            most = self._rates.of_peer
            bucket = self._peers[peer] = TokenBucket(most, most / 60, self._clock)
        self._peers.move_to_end(peer)
        while len(self._peers) > MOST_PEERS:
            self._peers.popitem(last=False)
        return bucket
