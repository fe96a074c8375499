"""What is told of a body that is longer than any form: the server would end the connection without a word,
and the proxy say that the service is not there.
"""

from __future__ import annotations

from typing import Any

from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher
from tornado.web import Finish, stream_request_body

from gpu_kernels.hub_config.pages.handlers.base import PageHandler

MOST_POSTED = 64 * 1024
"""Bytes of a form; the largest that the pages have is far smaller."""
MOST_PASSED_OVER = 64 * 1024 * 1024
"""Read and forgotten, since a browser that still sends hears no answer. Beyond, the connection ends."""


class AnnouncesTooMuch(Matcher):
    """Requests whose header says that the body is longer than any form."""

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        length = request.headers.get("Content-Length", "")
        return {} if length.isascii() and length.isdigit() and int(length[:18]) > MOST_POSTED else None


@stream_request_body
class TooLarge(PageHandler):
    """Answers before the body is read, and before anybody is asked who sends it."""

    async def prepare(self) -> None:
        self.current_user = None
        self.request.connection.set_max_body_size(MOST_PASSED_OVER)  # type: ignore[union-attr]
        self.show_error(413, "too_large")
        raise Finish

    def data_received(self, chunk: bytes) -> None:
        """Forgotten: the answer has gone out."""
