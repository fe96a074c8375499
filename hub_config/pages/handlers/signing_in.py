"""``/oauth_callback``: where the hub sends a browser back to that has signed in."""

from __future__ import annotations

import logging
from typing import Any

from jupyterhub.services.auth import HubOAuthCallbackHandler

from gpu_kernels.errors import RateLimited
from gpu_kernels.hub_config.pages.handlers.base import PageHandler

log = logging.getLogger("gpu_kernels.hub_config.pages")


class SigningIn(HubOAuthCallbackHandler, PageHandler):  # type: ignore[misc]
    """The library's, with our words where it fails: a page that was open too long, a restart of the hub."""

    _peer: str | None = None

    async def prepare(self) -> None:
        """Whoever comes here has not signed in yet, and costs the hub a question."""
        self._peer = self.lab.visitors.begin(self)

    def on_finish(self) -> None:
        if self._peer is not None:
            self.lab.visitors.end(self._peer, good=self.get_status() < 400)
        super().on_finish()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None))[1]
        if isinstance(error, RateLimited):
            super().write_error(status_code, **kwargs)
            return
        log.warning("signing in did not work: %s", error)
        self.show_error(status_code, "not_signed_in")
