"""The rate at which strangers make us ask somebody else who they are.

Each token that nobody has vouched for costs a question to the hub, so questions are bounded by peer, in all,
and in how many are open at once. One peer may have no more open than are left: however many it asks while the
hub is slow, as many are left for others. The same holds for the rate in all: n peers that flood leave 1/(n+1)
of it for a newcomer. What the answer vouches for counts for nothing: a class that begins,
or a controller that starts again, is not slowed down; only wrong tokens use a rate up.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from gpu_kernels.limits.rates import TokenBucket

MOST_PEERS = 4096
SMALLEST_UNIT = 1e-9
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


class Total:
    """A rate that all peers share: ``most`` at once, and ``a_second`` from then on. No peer may have used
    more than is left. What comes back with time counts for each peer by the part that it has used.
    """

    def __init__(self, most: float, a_second: float, clock: Callable[[], float]) -> None:
        self._most, self._a_second, self._clock = most, a_second, clock
        self._used, self._filled_at = 0.0, clock()
        # By peer, in units that shrink as time passes: nobody has to go through all of them.
        self._by: OrderedDict[str, float] = OrderedDict()
        self._unit = 1.0

    def take(self, peer: str) -> float:
        """Take one; the seconds after which to try again where there is none for that peer, else 0."""
        self._fill()
        mine, left = self._by.get(peer, 0.0) * self._unit, self._most - self._used
        if left < 1 or mine >= left:
            return max(1 - left, (mine - left) / 2, 1.0) / self._a_second
        self._count(peer, 1.0)
        return 0.0

    def put_back(self, peer: str) -> None:
        """What was taken turned out to count for nothing."""
        self._fill()
        mine = self._by.get(peer, 0.0) * self._unit
        self._count(peer, -min(1.0, mine))

    def _count(self, peer: str, number: float) -> None:
        self._used = max(0.0, self._used + number)
        self._by[peer] = self._by.get(peer, 0.0) + number / self._unit
        self._by.move_to_end(peer)
        while len(self._by) > MOST_PEERS:
            self._by.popitem(last=False)

    def _fill(self) -> None:
        now = self._clock()
        back, self._filled_at = (now - self._filled_at) * self._a_second, now
        if back >= self._used:
            self._used, self._unit = 0.0, 1.0
            self._by.clear()
            return
        self._unit *= 1 - back / self._used
        self._used -= back
        if self._unit < SMALLEST_UNIT:
            self._by = OrderedDict((peer, used * self._unit) for peer, used in self._by.items())
            self._unit = 1.0


class Questions:
    """Belongs to one event loop."""

    def __init__(self, rates: Rates = USUAL, clock: Callable[[], float] = time.monotonic) -> None:
        self._rates, self._clock = rates, clock
        self._all = Total(rates.in_all, rates.in_all / 60, clock)
        self._peers: OrderedDict[str, TokenBucket] = OrderedDict()
        self._open: Counter[str] = Counter()

    def begin(self, peer: str) -> None:
        """A question is about to be asked for that peer; ``end`` must follow. Raises ``TooFast``."""
        if self._open[peer] >= self._rates.open - self._open.total():
            raise TooFast(SOON_S)
        own = self._bucket(peer)
        if again := own.take():
            raise TooFast(again)
        if again := self._all.take(peer):
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
            self._all.put_back(peer)

    def _bucket(self, peer: str) -> TokenBucket:
        bucket = self._peers.get(peer)
        if bucket is None:
            most = self._rates.of_peer
            bucket = self._peers[peer] = TokenBucket(most, most / 60, self._clock)
        self._peers.move_to_end(peer)
        while len(self._peers) > MOST_PEERS:
            self._peers.popitem(last=False)
        return bucket
