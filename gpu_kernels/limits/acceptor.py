"""Accepting connections so that a lack of descriptors neither spins nor floods the log."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any

AT_ONCE = 4
"""Connections accepted before everything else of the loop has its turn: so whoever was let in is read before
many others can push it out, and a turn of the loop stays short.
"""
BACKLOG = 1024
"""Connections that may wait to be accepted: who finds no room tries again only after a second."""
PAUSE_S = 0.2
SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Accepts from one listening socket on the running loop until ``close``, which leaves the socket open.

    ``let_in`` is called with each connection and its address. When the process or the machine has no
    descriptor left, nothing is accepted for a moment; who comes waits in the backlog, and who was let in
    last has time to speak. Then ``short`` is called: it may make room.
    """

    def __init__(
        self,
        listening: socket.socket,
        let_in: Callable[[socket.socket, Any], None],
        short: Callable[[OSError], None],
        at_once: int = AT_ONCE,
    ) -> None:
        self._listening, self._let_in, self._short = listening, let_in, short
        self._at_once = at_once
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._loop.add_reader(listening.fileno(), self._accept)

    def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening.fileno())

    def _accept(self) -> None:
        for _ in range(self._at_once):
            try:
                connection, address = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in SHORT:
                    self._rest(error)
                    return
                continue  # that peer has given up already, or a firewall refuses it
            self._let_in(connection, address)

    def _rest(self, error: OSError) -> None:
        self._loop.remove_reader(self._listening.fileno())
        self._pause = self._loop.call_later(PAUSE_S, self._resume, error)

    def _resume(self, error: OSError) -> None:
        self._pause = None
        self._short(error)
        self._loop.add_reader(self._listening.fileno(), self._accept)
