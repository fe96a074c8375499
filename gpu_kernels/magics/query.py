"""Asks a GPU server's data port what a lease's slices are and how much of them is used.

A status query is a Hello with flag bit 0: the agent answers with JSON and closes, no worker is started, and
the process's own lanes are not touched. So it may be asked from any thread, also while a kernel runs.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from gpu_kernels.remoting.hello import ANSWER_HEAD, MAX_ANSWER_TEXT, STATUS_QUERY, Hello

TIMEOUT_S = 3.0


class AgentSilent(Exception):
    """The GPU server could not be asked, or refused; the text is for the user."""


@dataclass(frozen=True)
class SliceStatus:
    """One slice as its GPU server sees it; memory in MiB, utilisation in percent (None if not measured)."""

    name: str
    uuid: str
    index: int
    device: str
    driver_version: str
    total_mib: int
    used_mib: int
    utilisation: float | None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SliceStatus:
        utilisation = data["utilisation"]
        return cls(
            name=str(data["name"]),
            uuid=str(data["uuid"]),
            index=int(data["index"]),
            device=str(data["device"]),
            driver_version=str(data["driver_version"]),
            total_mib=int(data["total_mib"]),
            used_mib=int(data["used_mib"]),
            utilisation=None if utilisation is None else float(utilisation),
        )


def query(
    address: str, lease: str, epoch: int, secret: bytes, timeout: float = TIMEOUT_S
) -> list[SliceStatus]:
    """Ask the agent at ``address`` (``tcp://HOST:PORT`` or ``unix:///PATH``) about a lease.

    Raises ``AgentSilent`` if it cannot be reached within ``timeout``, refuses, or answers nonsense.
    """
    hello = Hello(STATUS_QUERY, 0, os.urandom(16), epoch, lease, secret)
    try:
        with _connect(address, timeout) as connection:
            connection.sendall(hello.pack())
            status, length = ANSWER_HEAD.unpack(_receive(connection, ANSWER_HEAD.size))
            if length > MAX_ANSWER_TEXT:
                raise AgentSilent(f"The GPU server at {address} does not speak the protocol of this version.")
            text = _receive(connection, length).decode()
        if status != 0:
            raise AgentSilent(text or f"The GPU server refused (status {status}).")
        return [SliceStatus.from_json(item) for item in json.loads(text)]
    except OSError as error:
        raise AgentSilent(f"The GPU server at {address} does not answer: {error}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise AgentSilent(f"The GPU server at {address} gave an answer that cannot be read.") from error


def transport(address: str) -> str:
    """The transport of an address, in words."""
    return {"tcp": "TCP", "unix": "Unix socket"}.get(urlsplit(address).scheme, "unknown")


def _connect(address: str, timeout: float) -> socket.socket:
    parts = urlsplit(address)
    if parts.scheme == "unix":
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout)
            connection.connect(parts.path)
        except OSError:
            connection.close()
            raise
        return connection
    if parts.scheme == "tcp" and parts.hostname and parts.port:
        return socket.create_connection((parts.hostname, parts.port), timeout=timeout)
    raise AgentSilent(f"{address!r} is not the address of a GPU server.")


def _receive(connection: socket.socket, length: int) -> bytes:
    """Exactly ``length`` bytes; an earlier end is an ``OSError``."""
    data = bytearray()
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise OSError("it closed the connection")
        data += part
    return bytes(data)
