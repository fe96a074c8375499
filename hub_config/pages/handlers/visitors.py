"""Whose a visitor's token is: asked of the hub at a bounded rate where nobody is known by it yet."""

from __future__ import annotations

import hashlib
import time
from typing import Any

from tornado.web import RequestHandler

from gpu_kernels.durations import duration
from gpu_kernels.errors import RateLimited
from gpu_kernels.limits.connections import Full
from gpu_kernels.limits.front import authenticating, prove
from gpu_kernels.limits.known_tokens import KnownTokens
from gpu_kernels.limits.questions import USUAL, Questions, Rates, TooFast

MOST_KNOWN = 10_000


class Visitors:
    """Of one service; belongs to its event loop."""

    def __init__(self, rates: Rates = USUAL) -> None:
        self._known: KnownTokens[None] = KnownTokens(MOST_KNOWN)
        self._questions = Questions(rates)

    async def find(self, handler: RequestHandler, auth: Any) -> None:
        """Let the hub's library find out who asks; the connection counts for them from then on.

        Raises ``RateLimited`` where too many unknown tokens come at once, or that person has too many
        connections, and ``HTTPError`` when the hub does not answer.
        """
        with authenticating(handler.request):
            token = auth.get_token(handler)
            if token is None:
                await auth.get_user(handler, sync=False)  # notes that there is nobody, and asks no hub
                return
            digest = hashlib.sha256(str(token).encode()).digest()
            if self._known.good(digest) is None:
                user = await self.ask(handler, auth)
            else:
                user = await auth.get_user(handler, sync=False)
            if user is None:
                self._known.forget(digest)
                return
            name = str(user["name"])
            self._known.add(digest, time.monotonic(), name, None)
            try:
                prove(handler.request, name)
            except Full:
                raise too_much(5.0) from None

    async def ask(self, handler: RequestHandler, auth: Any) -> Any:
        """As ``auth.get_user``, at the rate of strangers."""
        peer, user = self.begin(handler), None
        try:
            user = await auth.get_user(handler, sync=False)
        finally:
            self.end(peer, good=user is not None)
        return user

    def begin(self, handler: RequestHandler) -> str:
        """The hub is about to be asked for somebody unknown; ``end`` must follow with what this returns.

        Raises ``RateLimited``.
        """
        peer = handler.request.remote_ip or ""
        try:
            self._questions.begin(peer)
        except TooFast as error:
            handler.current_user = None  # else the page that says so would ask the hub
            raise too_much(max(1.0, error.again)) from None
        return peer

    def end(self, peer: str, *, good: bool) -> None:
        self._questions.end(peer, good=good)


def too_much(again: float) -> RateLimited:
    return RateLimited(
        f"Too much comes at once from where you are. Nothing was done. Try again in {duration(again)}.",
        retry_after=again,
    )
