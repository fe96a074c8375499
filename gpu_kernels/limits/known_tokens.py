"""What the hub has said of tokens: good ones and refused ones apart, both bounded, digests and no tokens.

A flood of wrong tokens fills the memory of refused ones alone. A user who makes tokens by the thousand pushes
out none but their own.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
MOST_OF_ONE = 256
"""Good tokens of one user that are remembered."""


@dataclass(frozen=True, slots=True)
class Good(Generic[T]):
    """Whose a token was at a time of the caller's clock, and what else was said of it."""

    at: float
    owner: str
    said: T


class KnownTokens(Generic[T]):
    def __init__(self, most: int, of_one: int = MOST_OF_ONE) -> None:
        """``most``: good tokens that are remembered, and as many refused ones; ``of_one``: good ones of one
        owner.
        """
        self._most, self._of_one = most, of_one
        self._good: OrderedDict[bytes, Good[T]] = OrderedDict()
        self._refused: OrderedDict[bytes, float] = OrderedDict()
        self._of: dict[str, OrderedDict[bytes, None]] = {}

    def __len__(self) -> int:
        """How many good ones."""
        return len(self._good)

    def good(self, digest: bytes) -> Good[T] | None:
        """The last good word, however old; a refusal since ends it."""
        return self._good.get(digest)

    def refused_at(self, digest: bytes) -> float:
        """When it was refused last; long ago where it was not."""
        return self._refused.get(digest, float("-inf"))

    def add(self, digest: bytes, at: float, owner: str, said: T) -> None:
        """The hub vouches for it."""
        self.forget(digest)
        self._good[digest] = Good(at, owner, said)
        own = self._of.setdefault(owner, OrderedDict())
        own[digest] = None
        if len(own) > self._of_one:
            self.forget(next(iter(own)))
        if len(self._good) > self._most:
            self.forget(next(iter(self._good)))

    def refuse(self, digest: bytes, at: float) -> None:
        """The hub does not know it, or no longer."""
        self.forget(digest)
        self._refused[digest] = at
        if len(self._refused) > self._most:
            self._refused.popitem(last=False)

    def forget(self, digest: bytes) -> None:
        """Believe no earlier word on it."""
        self._refused.pop(digest, None)
        known = self._good.pop(digest, None)
        if known is not None:
            own = self._of[known.owner]
            del own[digest]
            if not own:
                del self._of[known.owner]
