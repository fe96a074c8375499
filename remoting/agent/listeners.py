"""Listening sockets for the data port's addresses, ``tcp://HOST:PORT`` or ``unix:///PATH``."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path
from urllib.parse import urlsplit

from gpu_kernels.remoting.agent.side_threads import refuse_descriptors

BACKLOG = 128
PORT_FILE = "port"


class CannotListen(Exception):
    """An address is malformed or taken; the text is for who runs the server."""


def open_listener(address: str, state: Path) -> tuple[socket.socket, str]:
    """A listening socket, and the address that it really has.

    With port 0 it is the port of the last run if that is free, so that addresses that clients were given
    before a restart still hold; else any.
    """
    if address.startswith("unix://"):
        return _unix(address.removeprefix("unix://")), address
    host, port = _host_and_port(address)
    remembered = state / PORT_FILE
    if port != 0:
        return _tcp(address, host, port)
    with contextlib.suppress(OSError, ValueError, CannotListen):
        return _tcp(address, host, int(remembered.read_text()))
    listener, real = _tcp(address, host, 0)
    with contextlib.suppress(OSError):
        remembered.write_text(str(listener.getsockname()[1]))
    return listener, real


def _host_and_port(address: str) -> tuple[str, int]:
    parts = urlsplit(address)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme != "tcp" or not parts.hostname or port is None or parts.path or parts.username:
        raise CannotListen(
            f"{address!r} is not an address to listen on: it must read tcp://HOST:PORT or unix:///PATH"
        )
    return parts.hostname, port


def _tcp(address: str, host: str, port: int) -> tuple[socket.socket, str]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotListen(f"cannot listen on {address}: {error}") from error
    shown = f"[{host}]" if family == socket.AF_INET6 else host
    return listener, f"tcp://{shown}:{listener.getsockname()[1]}"


def _unix(path: str) -> socket.socket:
    """The socket's mode lets every local account connect: the secret, not the file, is what admits."""
    if not path.startswith("/") or len(os.fsencode(path)) > 107:
        raise CannotListen(f"unix://{path} is no absolute path of at most 107 bytes")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        refuse_descriptors(listener)
        listener.bind(path)
        os.chmod(path, 0o666)  # noqa: S103 - see above
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotListen(f"cannot listen on unix://{path}: {error}") from error
    return listener


def _remove_stale(path: str) -> None:
    """Remove the socket of an agent that is gone; one that answers, or another kind of file, stays."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise CannotListen(f"{path} is there and is no socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)
                return
        raise CannotListen(f"another process listens on unix://{path}")
