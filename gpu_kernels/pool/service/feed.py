"""The newest changes, for all who follow them: one ring of events, which each reader reads at its own pace.

A reader that falls so far behind that the ring has moved on is told to look anew; so no reader, however
slow, costs more than its place in the ring.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from gpu_kernels.errors import TooMany
from gpu_kernels.pool.ledger.state.book import Book
from gpu_kernels.pool.ledger.state.rows import Event, Lease
from gpu_kernels.pool.ledger.stores import Store

MOST_KEPT = 4096
MOST_REPLAYED = 1000
"""Events read from the store for a reader that comes back."""
MOST_EACH, MOST_READERS = 8, 1000


@dataclass(frozen=True, slots=True)
class Told:
    """An event, and whom it concerns."""

    event: Event
    user: str | None
    course: str | None


class Feed:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._ring: deque[Told] = deque(maxlen=MOST_KEPT)
        self._readers: Counter[str] = Counter()

    def add(self, told: Iterable[Told]) -> None:
        """What a batch has changed, in the order of the events' ids."""
        self._ring.extend(told)

    @property
    def newest(self) -> int | None:
        """The id of the newest event, None where there was none since the start."""
        return self._ring[-1].event.id if self._ring else None

    def since(self, last: int) -> Sequence[Told] | None:
        """What came after the event ``last``; None where some of it is not kept any more."""
        if not self._ring or self._ring[-1].event.id <= last:
            return ()
        if self._ring[0].event.id > last + 1:
            return None
        found: list[Told] = []
        for told in reversed(self._ring):
            if told.event.id <= last:
                break
            found.append(told)
        return found[::-1]

    @contextmanager
    def joined(self, who: str) -> Iterator[None]:
        """Count a reader in. Raises ``TooMany``."""
        if self._readers[who] >= MOST_EACH:
            raise TooMany(
                f"{who} follows the pool's changes {MOST_EACH} times already, the limit for each user.\n"
                "Close pages of the lab that you do not need, and load this one again.",
                retry_after=30.0,
                details={"limit": MOST_EACH},
            )
        if self._readers.total() >= MOST_READERS:
            raise TooMany(
                f"{MOST_READERS} readers follow the pool's changes already.\nTry again in a few minutes.",
                retry_after=120.0,
                details={"limit": MOST_READERS},
            )
        self._readers[who] += 1
        try:
            yield
        finally:
            self._readers[who] -= 1
            if not self._readers[who]:
                del self._readers[who]


def concerning(book: Book, events: Iterable[Event]) -> list[Told]:
    """Whom new events concern, by the book that they were made in. For the book's thread."""
    return [_concerning(book, event) for event in events]


def _concerning(book: Book, event: Event) -> Told:
    lease = book.leases.get(event.subject)
    if lease is not None:
        return Told(event, lease.user, lease.course)
    hour = book.class_hours.get(event.subject) or book.windows.get(event.subject)
    if hour is not None:
        return Told(event, None, hour.course)
    return Told(event, None, event.subject if event.subject in book.accounts else None)


def replayed(store: Store, last: int) -> list[Told] | None:
    """What came after the event ``last``, from the store's history; None where that is too much, or ``last``
    is not of this ledger.
    """
    newest = store.events(limit=1).rows
    if last > (newest[0].id if newest else 0):
        return None
    events = store.events_after(last, MOST_REPLAYED + 1)
    if len(events) > MOST_REPLAYED or (events and events[0].id != last + 1):
        return None
    leases: dict[str, Lease | None] = {}
    for event in events:
        if event.subject not in leases:
            found = store.find_lease(event.subject)
            leases[event.subject] = None if found is None else found.lease
    told = [(event, leases[event.subject]) for event in events]
    return [
        Told(event, None, None) if lease is None else Told(event, lease.user, lease.course)
        for event, lease in told
    ]


def completed(book: Book, past: Iterable[Told]) -> list[Told]:
    """What was replayed, also whom events of other things than leases concern, as far as the book still has
    them. For the book's thread.
    """
    return [told if told.user is not None else _concerning(book, told.event) for told in past]
