"""Logins for a demo: a fixed list of names, each with its own random password, on loopback only."""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import urlparse

from jupyterhub.auth import Authenticator
from traitlets import Dict, Unicode

from gpu_kernels.hub_config.lab.settings import require_loopback


class DemoAuthenticator(Authenticator):  # type: ignore[misc]
    """Knows the demo's people and their passwords, and works for a hub on a loopback address alone.

    The hub makes its authenticator before it listens; an address that others can reach is refused here,
    however it was set (configuration file or command line).
    """

    passwords = Dict(key_trait=Unicode(), value_trait=Unicode(), config=True, help="Password by user name.")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        address = urlparse(self.parent.bind_url).hostname if self.parent else None
        if self.parent:
            require_loopback(address or "every address")
        self.allowed_users = set(self.passwords)

    async def authenticate(self, handler: Any, data: dict[str, str]) -> str | None:
        """Called by the hub's login form. A wrong name and a wrong password take the same time."""
        name = self.normalize_username(data["username"])
        expected = self.passwords.get(name, "")
        matches = secrets.compare_digest(expected.encode(), data["password"].encode())
        return name if expected and matches else None
