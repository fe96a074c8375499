"""Ports for servers that start seconds after the port was chosen.

The usual way, to let the kernel choose a free port and close it again, yields one of the ports that outgoing
connections use. On a busy machine another connection has it before the server does, and the server never
shows up. Ports outside that range are taken only by those who ask for them.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Container
from pathlib import Path

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST = 10_000
ATTEMPTS = 1000
STARTS_WITHIN_S = 600.0
"""Longer than a server takes from the choice of its port until it listens."""

_chosen: dict[int, float] = {}


class NoFreePort(OSError):
    """Hardly any port outside the range of outgoing connections is free."""


def reserved_range() -> range:
    """The ports that no outgoing connection is given: the larger part below or above those."""
    try:
        low, high = map(int, EPHEMERAL.read_text().split())
    except (OSError, ValueError):
        low, high = 32768, 60999
    return max(range(LOWEST, low), range(high + 1, 65536), key=len)


def free_port(address: str = "127.0.0.1", besides: Container[int] = ()) -> int:
    """A port that nobody listens on, chosen at random so that two that choose at once differ."""
    ports = reserved_range()
    for _ in range(ATTEMPTS if ports else 0):
        port = random.choice(ports)  # noqa: S311 - not a secret
        if port not in besides and is_free(address, port):
            return port
    raise NoFreePort(f"found no free port in {ports}")


def port_for_server(address: str = "127.0.0.1") -> int:
    """A free port that this process has not chosen for another server which may still be starting.

    When a class begins there are dozens of those, and two that choose at random meet soon enough.
    """
    now = time.monotonic()
    for port, at in list(_chosen.items()):
        if now - at > STARTS_WITHIN_S:
            del _chosen[port]
    port = free_port(address, besides=_chosen)
    _chosen[port] = now
    return port


def is_free(address: str, port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
