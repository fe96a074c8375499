"""A long answer of the controller, passed on to the visitor as it comes: nothing of it is kept here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from tornado.iostream import StreamClosedError

from gpu_kernels.client.exchange import Controllers, Try, client_arguments, unreachable
from gpu_kernels.client.requests import Request
from gpu_kernels.errors import NotActive, PoolError, from_json
from gpu_kernels.hub_config.pages.handlers.base import TIMEOUT_S, PageHandler
from gpu_kernels.streaming import StreamingHandler

log = logging.getLogger("gpu_kernels.hub_config.pages")
FLUSH_WITHIN_S = 60.0
"""A visitor who takes nothing for so long is let go."""


class Download(StreamingHandler, PageHandler):
    async def pass_on(self, request: Request[str], name: str) -> None:
        """Answer with what the controller answers to ``request``, as a file called ``name``. One that breaks
        off in the middle ends the connection: what came must not look whole.
        """
        await self.stream(self._pass_on(request, name))

    async def _pass_on(self, request: Request[str], name: str) -> None:
        try:
            async with self._opened(request) as response:
                self.set_header("Content-Type", response.headers["content-type"])
                self.set_header("Content-Disposition", f'attachment; filename="{name}"')
                async for part in response.aiter_bytes():
                    self.write(part)
                    async with asyncio.timeout(FLUSH_WITHIN_S):
                        await self.flush()
        except (StreamClosedError, TimeoutError):
            log.debug("whoever downloads has gone, or takes nothing")
            self._break_off()
        except httpx.TransportError:
            if not self._headers_written:
                raise
            log.warning("%s broke off", self.request.path)
            self._break_off()

    @asynccontextmanager
    async def _opened(self, request: Request[str]) -> AsyncIterator[httpx.Response]:
        """The answer of the controller that is active. Raises ``PoolError``."""
        controllers = Controllers(self.lab.controller)
        arguments = client_arguments({"Authorization": f"token {self.token}"}, verify=True)
        async with httpx.AsyncClient(**arguments) as client:
            failure: PoolError | None = None
            for url in controllers.in_turn():
                one = Try(url, TIMEOUT_S, TIMEOUT_S)
                try:
                    response = await client.send(client.build_request(**one.arguments(request)), stream=True)
                except httpx.TransportError as error:
                    failure = unreachable(url, error)
                    continue
                try:
                    if response.is_success:
                        yield response
                        return
                    await response.aread()
                finally:
                    await response.aclose()
                failure = _refusal(response)
                if not isinstance(failure, NotActive):
                    break
                controllers.name_active(failure.details.get("address"))
            assert failure is not None
            raise failure

    def _break_off(self) -> None:
        self._finished = True
        self.request.connection.stream.close()  # type: ignore[union-attr]


def _refusal(response: httpx.Response) -> PoolError:
    try:
        return from_json(response.status_code, response.json())
    except ValueError:
        return from_json(response.status_code, None)
