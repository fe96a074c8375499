"""Ports for kernels that nobody else is given while a kernel starts.

The server chooses a kernel's ports, the kernel binds them seconds later. The stock way lets go of them in
between, and on a machine where a class has just begun another server, or an outgoing connection, gets one.
Such a kernel may not even end: without its iopub port ipykernel hangs, and its user waits for ever.
"""

from __future__ import annotations

import socket
from typing import Any

from jupyter_client.connect import LocalPortCache


class HeldPorts(LocalPortCache):
    """Keeps a socket bound to each port for as long as its kernel lives, restarts included.

    The socket does not listen, and is set to share its address after it has got it. The kernel then binds
    the same port, since ZeroMQ shares too; whoever is given any free port is not given this one.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._holding: dict[int, socket.socket] = {}

    def find_available_port(self, ip: str) -> int:
        """Called by the provisioner of a kernel that starts for the first time."""
        holding = socket.socket()
        try:
            holding.bind((ip, 0))
            holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port = int(holding.getsockname()[1])
        except BaseException:
            holding.close()
            raise
        self._holding[port] = holding
        self.currently_used_ports.add(port)
        return port

    def return_port(self, port: int) -> None:
        """Called by the provisioner of a kernel that is gone for good."""
        if (holding := self._holding.pop(port, None)) is not None:
            holding.close()
        super().return_port(port)


def hold_ports() -> None:
    """Let the kernels of this process have held ports, unless somebody has settled that otherwise."""
    if not LocalPortCache.initialized():
        HeldPorts.instance()
