"""``/oauth_callback``: where the hub sends a browser back to that has signed in."""

from __future__ import annotations

import logging
from typing import Any

from jupyterhub.services.auth import HubOAuthCallbackHandler

from hub_config.pages.handlers.base import PageHandler

log = logging.getLogger("hub_config.pages")


class SigningIn(HubOAuthCallbackHandler, PageHandler):  # type: ignore[misc]
    """The library's, with our words where it fails: a page that was open too long, a restart of the hub."""

    async def prepare(self) -> None:
        """Whoever comes here has not signed in yet."""

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        log.warning("signing in did not work: %s", kwargs.get("exc_info", (None, None))[1])
        self.show_error(status_code, "not_signed_in")
