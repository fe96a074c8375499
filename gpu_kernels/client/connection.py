"""Where the controllers are, and who asks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

from gpu_kernels.client.api import Api
from gpu_kernels.client.exchange import CONTROLLER_VARIABLE, Controllers, client_arguments
from gpu_kernels.errors import PoolUnavailable, Unauthenticated

TOKEN_VARIABLES = ("GPU_KERNELS_TOKEN", "JUPYTERHUB_API_TOKEN")


class Connection(Api):
    """Base of both clients. The token is in no repr and no error text.

    ``url``: the controller's address, or several, separated by commas, of which one is active. ``timeout``
    bounds each call in seconds, besides the time that the caller asks the controller to wait.
    """

    def __init__(self, url: str, token: str, timeout: float = 10.0, *, verify: bool | str = True) -> None:
        self._controllers = Controllers(url)
        if not token or not token.isascii() or not token.isprintable():
            raise Unauthenticated(
                f"There is no usable token for the GPU pool (read from {' or '.join(TOKEN_VARIABLES)}).\n"
                "Start the server again from the hub, or ask the hub's administrator."
            )
        self.timeout = timeout
        self._headers = {"Authorization": f"token {token}"}
        secure = any(address.startswith("https:") for address in self._controllers.urls)
        self._verify = verify if secure else False

    @property
    def url(self) -> str:
        """The controller that answered last."""
        return self._controllers.current

    @property
    def addresses(self) -> list[str]:
        """Of all controllers, the one that answered last first."""
        return list(self._controllers.in_turn())

    @property
    def token(self) -> str:
        """Who asks."""
        return self._headers["Authorization"].removeprefix("token ")

    @property
    def certificates(self) -> str | None:
        """The file of those who sign the controllers' certificates; None without TLS."""
        if self._verify is not True:
            return self._verify or None
        import certifi  # what httpx takes, and brings

        return certifi.where()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({','.join(self._controllers.urls)!r})"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, *, timeout: float = 10.0) -> Self:
        """The client that the environment describes: ``GPU_KERNELS_CONTROLLER`` and a token variable.

        Raises ``PoolUnavailable`` or ``Unauthenticated`` where it describes none.
        """
        values = os.environ if environment is None else environment
        url = values.get(CONTROLLER_VARIABLE, "")
        if not url:
            raise PoolUnavailable(
                f"No GPU pool is configured here: {CONTROLLER_VARIABLE} is not set.\n"
                "Choose 'Python 3' to work without a GPU, or ask the administrator of this installation."
            )
        token = next((values[name] for name in TOKEN_VARIABLES if values.get(name)), "")
        return cls(url, token, timeout)

    def _client_arguments(self) -> dict[str, Any]:
        return client_arguments(self._headers, self._verify)
