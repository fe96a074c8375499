"""Which addresses GPU servers may announce: clients bring a lease's secret, and data, wherever they are told.

A name is never resolved here. What it means is the word of the clients' resolvers, which nobody can check
from the controller, so a name is allowed only where it is listed, as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from pathlib import PurePosixPath

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

LOWEST_PORT, HIGHEST_PORT = 1024, 65535
"""Below it are the ports of a machine's own services: no data port is there, and no client is sent there."""
SOCKETS = "unix://"
PRIVATE = (
    "127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7",
)  # fmt: skip
"""This machine, and the networks that are nobody's on the internet."""
NEVER = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4",
        "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
        "::/128", "fe80::/10", "ff00::/8", "fd00:ec2::/32", "fd20:ce::254/128",
    )
)  # fmt: skip
"""No GPU server is there, whatever is listed: no address, link-local ones, multicast, and those at which
clouds tell a machine its own credentials.
"""
_TCP = re.compile(r"tcp://(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+)):(?P<port>[0-9]{1,5})")
_NAME = re.compile(
    r"\.?([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
)


@dataclass(frozen=True, slots=True)
class Addresses:
    """``names``: host names, and domains that begin with a dot. ``folders``: of Unix sockets."""

    networks: tuple[Network, ...]
    names: frozenset[str] = frozenset()
    folders: tuple[PurePosixPath, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[str]) -> Addresses:
        """From a setting's texts: networks such as 10.1.0.0/16, names such as gpu1.example.org or
        .example.org, folders such as unix:///run/gpu. Raises ``ValueError``.
        """
        networks: list[Network] = []
        names, folders = set(), []
        for entry in entries:
            if entry.startswith(SOCKETS):
                folders.append(_folder(entry))
            elif _NAME.fullmatch(entry):
                names.add(entry.casefold())
            else:
                networks.append(_network(entry))
        return cls(tuple(networks), frozenset(names), tuple(folders))

    def refusal(self, address: str) -> str | None:
        """What is wrong with an address, as a half sentence; None where it may be announced."""
        if address.startswith(SOCKETS):
            return self._of_socket(address.removeprefix(SOCKETS))
        found = _TCP.fullmatch(address)
        if found is None:
            return "it is neither tcp://HOST:PORT nor unix:///PATH"
        if not LOWEST_PORT <= int(found["port"]) <= HIGHEST_PORT:
            return f"its port is not between {LOWEST_PORT} and {HIGHEST_PORT}"
        return self._of_host(found["v6"] or found["host"])

    def _of_socket(self, text: str) -> str | None:
        path = PurePosixPath(text)
        if ".." not in path.parts and any(folder in path.parents for folder in self.folders):
            return None
        return "a Unix socket is reached by kernels of the same machine alone, and no such folder is listed"

    def _of_host(self, host: str) -> str | None:
        try:
            numeric = _plain(ip_address(host))
        except ValueError:
            return None if self._is_listed(host.casefold()) else f"the name {host[:80]} is not listed"
        if any(numeric in network for network in NEVER):
            return f"{numeric} is no address of a GPU server"
        if any(numeric in network for network in self.networks):
            return None
        return f"{numeric} is in none of the networks that are listed"

    def _is_listed(self, name: str) -> bool:
        if not _NAME.fullmatch(name) or name.startswith("."):
            return False  # such as 0x7f.1, which resolvers take for a number
        return name in self.names or any(name.endswith(known) for known in self.names if known[0] == ".")


def _plain(address: Address) -> Address:
    """An IPv4 address that is written as an IPv6 one is what it is."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _network(entry: str) -> Network:
    try:
        return ip_network(entry)
    except ValueError as error:
        raise ValueError(
            f"{entry!r} is no network such as 10.1.0.0/16, no name and no unix:///FOLDER: {error}"
        ) from None


def _folder(entry: str) -> PurePosixPath:
    path = PurePosixPath(entry.removeprefix(SOCKETS))
    if not path.is_absolute() or ".." in path.parts or len(path.parts) < 2:
        raise ValueError(f"{entry!r} names no folder: write unix:///run/gpu-kernels")
    return path
