"""What the API says of itself: its versions, and its document."""

from __future__ import annotations

from functools import cache

from pydantic_core import to_json

from gpu_kernels import __version__
from gpu_kernels.pool.service.base import VERSIONS, Handler
from gpu_kernels.pool.service.openapi import document
from gpu_kernels.pool.service.operations import operation
from gpu_kernels.resources.about import Version, VersionList


class Versions(Handler):
    """``/api``"""

    anonymous = True

    @operation("List the versions of the API", answers={200: VersionList}, anonymous=True)
    async def get(self) -> None:
        """For clients that have to choose; needs no token."""
        base = self.request.path.rstrip("/")
        versions = (Version(name, f"{base}/{name}", f"{base}/{name}/openapi.json") for name in VERSIONS)
        self.answer(VersionList(tuple(versions), __version__))


class Document(Handler):
    """``/openapi.json``"""

    anonymous = True

    @operation("The API in OpenAPI 3.1", answers={200: "application/json"}, anonymous=True)
    async def get(self) -> None:
        """Made from the same declarations by which requests are read; needs no token."""
        server = self.request.path.removesuffix("/openapi.json")
        self.set_header("Content-Type", "application/json; charset=UTF-8")
        self.finish(_document(server))


@cache
def _document(server: str) -> bytes:
    return to_json(document(server), indent=1)
