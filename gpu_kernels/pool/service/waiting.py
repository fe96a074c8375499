"""Waking those who wait: long polls are woken by the change itself, not by looking again and again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from gpu_kernels.errors import TooMany

LEAVE_WITHIN = 5.0
"""Seconds."""
MOST_EACH = 64
"""Long polls of one user, or for one agent, at a time; each holds a connection."""


class Bells:
    """One bell a topic. Belongs to one event loop.

    Whoever waits must hold the bell before looking at the ledger; then no change can fall between.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._each: Counter[str] = Counter()
        self._nobody = asyncio.Event()
        self.closed = False
        """Whether the service stops: whoever is woken must leave with an answer that says so."""

    @contextmanager
    def at(self, topic: str, who: str) -> Iterator[asyncio.Event]:
        """An event that is set when ``topic`` rings. Raises ``TooMany`` when ``who`` waits too often."""
        if self._each[who] >= MOST_EACH:
            raise TooMany(
                f"{who} waits for {MOST_EACH} answers of the GPU pool already, the limit for each user.\n"
                "What waits goes on waiting. Try again in a few seconds, when one of them is there.",
                retry_after=5.0,
                details={"limit": MOST_EACH},
            )
        self._each[who] += 1
        event = asyncio.Event()
        self._waiting.setdefault(topic, set()).add(event)
        try:
            yield event
        finally:
            self._each[who] -= 1
            if not self._each[who]:
                del self._each[who]
            others = self._waiting[topic]
            others.discard(event)
            if not others:
                del self._waiting[topic]
            if not self._waiting:
                self._nobody.set()

    def __len__(self) -> int:
        """How many wait. From any thread."""
        return sum(map(len, list(self._waiting.values())))

    def ring(self, topics: Iterable[str]) -> None:
        for topic in topics:
            for event in self._waiting.get(topic, ()):
                event.set()

    def ring_all(self) -> None:
        """Let all who wait look again."""
        self.ring(list(self._waiting))

    async def close(self) -> None:
        """Wake all who wait, and let them leave; ``LEAVE_WITHIN`` at most."""
        self.closed = True
        self._nobody.clear()
        self.ring_all()
        if self._waiting:
            await rung(self._nobody, LEAVE_WITHIN)


EVENTS = "events"
"""Rings with every change that leaves an event."""


def lease_topic(lease_id: str) -> str:
    return f"lease {lease_id}"


def agent_topic(name: str) -> str:
    return f"agent {name}"


async def rung(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the bell; False when the time was over first. The bell may be waited for again."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    event.clear()
    return True
