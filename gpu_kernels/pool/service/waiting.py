"""Waking those who wait: long polls are woken by the change itself, not by looking again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

LEAVE_WITHIN = 5.0
"""Seconds."""


class Bells:
    """One bell a topic. Belongs to one event loop.

    Whoever waits must hold the bell before looking at the ledger; then no change can fall between.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._nobody = asyncio.Event()
        self.closed = False
        """Whether the service stops: whoever is woken must leave with an answer that says so."""

    @contextmanager
    def at(self, topic: str) -> Iterator[asyncio.Event]:
        """An event that is set when ``topic`` rings."""
        event = asyncio.Event()
        self._waiting.setdefault(topic, set()).add(event)
        try:
            yield event
        finally:
            others = self._waiting[topic]
            others.discard(event)
            if not others:
                del self._waiting[topic]
            if not self._waiting:
                self._nobody.set()

    def __len__(self) -> int:
        """How many wait."""
        return sum(len(events) for events in self._waiting.values())

    def ring(self, topics: Iterable[str]) -> None:
        for topic in topics:
            for event in self._waiting.get(topic, ()):
                event.set()

    async def close(self) -> None:
        """Wake all who wait, and let them leave; ``LEAVE_WITHIN`` at most."""
        self.closed = True
        self._nobody.clear()
        self.ring(list(self._waiting))
        if self._waiting:
            await rung(self._nobody, LEAVE_WITHIN)


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
