"""The files that pages are made of. The hub's own are served from its package, so that a page keeps its looks
while the hub is away, and where the hub has another host name.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from jupyterhub import __version__ as hub_version
from jupyterhub._data import DATA_FILES_PATH
from tornado.web import StaticFileHandler

OWN = Path(__file__).parents[1] / "static"


class OwnFiles(StaticFileHandler):
    def set_extra_headers(self, path: str) -> None:
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Content-Security-Policy", "default-src 'none'")


class HubFiles(OwnFiles):
    FOLDER: ClassVar[str] = f"{DATA_FILES_PATH}/static"


@lru_cache
def version_of(name: str) -> str:
    """What changes when the file does, so that browsers may keep it."""
    if name.startswith("hub/"):
        return str(hub_version)
    return hashlib.sha256((OWN / name).read_bytes()).hexdigest()[:12]
