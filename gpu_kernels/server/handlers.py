"""The addresses below ``/gpu-lab/api``: thin, since attachments do the work.

All of them are for whoever may use this server's kernels, and say what went wrong as JSON with a ``message``,
as the server's own do. What a page asks for by itself does not count as somebody's activity.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any, cast, get_args

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from msgspec.json import encode
from tornado.iostream import StreamClosedError
from tornado.web import authenticated, stream_request_body

from gpu_kernels.errors import GPUKernelsError, InvalidRequest, NotFound, PoolError, TooLarge
from gpu_kernels.provisioner import attachments
from gpu_kernels.provisioner.attachment import Attachment
from gpu_kernels.provisioner.snapshot import snapshot
from gpu_kernels.resources import lab
from gpu_kernels.resources.base import Resource
from gpu_kernels.server import course
from gpu_kernels.server.asking import Asker
from gpu_kernels.server.streams import Streams, told
from gpu_kernels.streaming import StreamingHandler

MAX_BODY = 4096
HEARTBEAT_S = 15.0
FLUSH_WITHIN_S = 30.0
NO_SUCH_KERNEL = (
    "This kernel has no slice of a GPU to show: it has ended, or is one without a GPU.\n"
    "Menu Kernel, Change Kernel: choose one with a size in its name."
)


class Handler(APIHandler):
    """``GPUKernelsError`` becomes its JSON."""

    auth_resource = "kernels"

    def initialize(self, asker: Asker, streams: Streams) -> None:
        self.asker, self.streams = asker, streams

    def attachment(self, kernel_id: str) -> Attachment:
        """Raises ``NotFound``."""
        attachment = attachments.get(kernel_id)
        if attachment is None:
            raise NotFound(NO_SUCH_KERNEL)
        return attachment

    def answer(self, told: Resource) -> None:
        self.finish(encode(told))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = (kwargs.get("exc_info") or (None, None, None))[1]
        if not isinstance(error, GPUKernelsError):
            super().write_error(status_code, **kwargs)
            return
        self.set_status(error.status if isinstance(error, PoolError) else HTTPStatus.CONFLICT)
        self.answer(lab.Failure(error.message, error.code))

    def log_exception(self, *exc_info: Any) -> None:
        if not isinstance(exc_info[1], GPUKernelsError):
            super().log_exception(*exc_info)


CHANGES = "|".join(get_args(lab.Change))


class Kernels(Handler):
    """How all attachments stand, by what is known."""

    _track_activity = False

    @authenticated
    @authorized
    def get(self) -> None:
        self.answer(lab.KernelSlices(tuple(map(snapshot, attachments.all()))))


class Kernel(Handler):
    """How one stands, after asking its GPU server."""

    _track_activity = False

    @authenticated
    @authorized
    async def get(self, kernel_id: str) -> None:
        attachment = self.attachment(kernel_id)
        attachment.explained()
        self.answer(await self.asker.look(attachment))


class Course(Handler):
    """What the course offers, and how far budgets are spent."""

    _track_activity = False

    @authenticated
    @authorized
    async def get(self) -> None:
        self.answer(await self.asker.ask(course.now))


@stream_request_body
class Change(Handler):
    """As at the attach point, without waiting. The body is bounded before it is read."""

    _body = b""

    async def prepare(self) -> None:  # type: ignore[override]
        self.request.connection.set_max_body_size(MAX_BODY)  # type: ignore[union-attr]
        length = self.request.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdigit() and len(length) < 9 and int(length) <= MAX_BODY):
            raise _too_large()
        await super().prepare()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Of a refusal before the body was read: it ends the connection, and proxies must know."""
        self.set_header("Connection", "close")
        super().write_error(status_code, **kwargs)

    def data_received(self, chunk: bytes) -> None:
        self._body += chunk
        if len(self._body) > MAX_BODY:
            raise _too_large()

    @authenticated
    @authorized
    async def post(self, kernel_id: str, do: str) -> None:
        attachment = self.attachment(kernel_id)
        if do == "attach":
            await self.asker.ask(attachment.attach, _size(self._body))
        elif do == "wait":
            await self.asker.ask(attachment.want)
        elif do == "keep":
            await self.asker.ask(attachment.keep)
        else:
            await self.asker.ask(attachment.release)
        self.answer(snapshot(attachment))


class Events(StreamingHandler, Handler):
    """``kernels`` and a ``slice`` for each at the beginning, then ``slice`` when one has changed, and
    ``gone`` when one has ended.
    """

    _track_activity = False

    @authenticated
    @authorized
    async def get(self) -> None:
        await self.stream(self._tell())

    async def _tell(self) -> None:
        stream = self.streams.open()
        try:
            self.set_header("Content-Type", "text/event-stream; charset=UTF-8")
            self.set_header("Cache-Control", "no-cache")
            self.set_header("X-Accel-Buffering", "no")
            ids = tuple(attachment.kernel_id for attachment in attachments.all())
            await self._write(message(lab.KernelIds(ids)))
            while not stream.closed:
                kernels = await stream.next(HEARTBEAT_S)
                messages = [message(told(kernel_id)) for kernel_id in kernels]
                await self._write("".join(messages) or ": still here\n\n")
        except (StreamClosedError, TimeoutError):
            self.log.debug("a reader of GPU events has gone, or takes nothing")
            self.break_off()
        else:
            self.finish(set_content_type="text/event-stream; charset=UTF-8")
        finally:
            self.streams.end(stream)

    async def _write(self, text: str) -> None:
        self.write(text)
        async with asyncio.timeout(FLUSH_WITHIN_S):
            await self.flush()


def message(event: lab.KernelEvent) -> str:
    return f"event: {lab.EVENTS[type(event)]}\ndata: {encode(event).decode()}\n\n"


def _size(body: bytes) -> str:
    """Raises ``InvalidRequest``."""
    try:
        size = cast("object", json.loads(body)["size"])
    except (ValueError, RecursionError, KeyError, TypeError):
        size = None
    if not isinstance(size, str):
        raise InvalidRequest('The request names no size, such as {"size": "0.05 V100"}.')
    return size


def _too_large() -> TooLarge:
    return TooLarge(f"The request is longer than {MAX_BODY} bytes.")
