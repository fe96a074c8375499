"""Streaming responses, cancelled when their reader disconnects: events, long tables."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from tornado.web import RequestHandler


class StreamingHandler(RequestHandler):
    """Base of a tornado handler with a streaming response."""

    _answer: asyncio.Task[None] | None = None

    async def stream(self, answer: Coroutine[Any, Any, None]) -> None:
        """Run ``answer`` to its end, or cancel it when the connection closes. Called in ``get``."""
        self._answer = asyncio.ensure_future(answer)
        try:
            await self._answer
        except asyncio.CancelledError:
            if not self._answer.cancelled():
                raise

    def break_off(self) -> None:
        """End the connection of a reader that takes nothing, and so would not take the end either."""
        self._finished = True
        self.request.connection.stream.close()  # type: ignore[union-attr]

    def on_connection_close(self) -> None:
        """Called by tornado when the reader has gone."""
        if self._answer is not None:
            self._answer.cancel()
        super().on_connection_close()
