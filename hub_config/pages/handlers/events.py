"""``/events``: the controller's stream of changes, passed on to the visitor's browser.

One attempt: when the controller's stream ends, so does this one, and the script says so and comes again, with
the last id that it has seen. A page is told that something has changed, not what: it asks for what it shows.
"""

from __future__ import annotations

import asyncio
import json
import logging

import httpx
from tornado.iostream import StreamClosedError

from gpu_kernels.client.event_stream import Event, EventStream
from gpu_kernels.client.exchange import Controllers, client_arguments, unreachable
from gpu_kernels.hub_config.pages.handlers.base import TIMEOUT_S, PageHandler
from gpu_kernels.streaming import StreamingHandler

log = logging.getLogger("gpu_kernels.hub_config.pages")
MOST_TOPICS = 400
FLUSH_WITHIN_S = 30.0


class Events(StreamingHandler, PageHandler):
    @property
    def wants_parts(self) -> bool:
        """It is a script that asks, never a person."""
        return True

    async def get(self) -> None:
        topics = self.get_query_argument("topics", "leases")[:MOST_TOPICS]
        last = self.request.headers.get("Last-Event-ID", "")
        after = int(last) if last.isascii() and last.isdigit() and len(last) < 19 else None
        following = EventStream(Controllers(self.lab.controller), (topics,), after, TIMEOUT_S)
        await self.stream(self._pass_on(following))

    async def _pass_on(self, following: EventStream) -> None:
        arguments = client_arguments({"Authorization": f"token {self.token}"}, verify=True)
        try:
            async with (
                httpx.AsyncClient(**arguments) as client,
                client.stream(**following.arguments()) as response,
            ):
                following.began(response.status_code, b"" if response.is_success else await response.aread())
                self.set_header("Content-Type", "text/event-stream; charset=UTF-8")
                self.set_header("X-Accel-Buffering", "no")
                async for line in response.aiter_lines():
                    if line.startswith(":"):
                        await self._tell(": still here\n\n")
                    elif (event := following.line(line)) is not None:
                        await self._tell(message(event))
        except httpx.TransportError as error:
            if not self._headers_written:
                raise unreachable(self.lab.controller, error) from None
        except (StreamClosedError, TimeoutError):
            log.debug("a reader of events has gone or takes nothing")
            self.break_off()

    async def _tell(self, text: str) -> None:
        self.write(text)
        async with asyncio.timeout(FLUSH_WITHIN_S):
            await self.flush()


def message(event: Event) -> str:
    """The event for a script: its kind, and nothing that the page would not ask for anyhow."""
    told = {"kind": "" if event.change is None else event.change.kind}
    return f"id: {event.id}\nevent: {event.name}\ndata: {json.dumps(told)}\n\n"
