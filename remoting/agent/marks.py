"""Locks: marks that something of an agent's workers lives, for the agent that comes after it.

Workers die with their agent, but not at the same moment: a driver takes its time to tear down. Each worker
inherits a shared lock of its own on a file in the state folder, which the kernel takes away when the last
process that has it is gone. An agent says "nothing lives here" only once it had the file to itself.

And a GPU belongs to one agent, whatever name and folder another one has: an abstract socket, bound to the
GPU's UUID, lives as long as the agent's process does, stopped or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from gpu_kernels.remoting.agent.gpus import Inventory
from gpu_kernels.remoting.agent.listeners import CannotListen

FILE_NAME = "workers.lock"
BETWEEN_LOOKS_S = 0.05
WORTH_A_LINE_S = 5.0


class Marks:
    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME

    @contextlib.contextmanager
    def another(self) -> Iterator[int]:
        """A mark for a process that is started within: a descriptor to inherit. Raises ``OSError``."""
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # No agent holds it alone while workers are started: see ``none_left``.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            yield descriptor
        finally:
            os.close(descriptor)

    async def none_left(self, log: logging.Logger) -> None:
        """Wait until no process has a mark. Only the one agent of the folder may ask, before its first
        worker. Raises ``OSError``."""
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        waited = 0.0
        try:
            while not _alone(descriptor):
                if waited <= WORTH_A_LINE_S < waited + BETWEEN_LOOKS_S:
                    log.warning("workers of the last agent still live; nothing is served until they are gone")
                await asyncio.sleep(BETWEEN_LOOKS_S)
                waited += BETWEEN_LOOKS_S
        finally:
            os.close(descriptor)


def claim_gpus(inventory: Inventory) -> list[socket.socket]:
    """Claim this machine's NVIDIA GPUs for this process, for as long as the sockets are open. A software GPU
    is made by its agent, and there is nothing to claim. Raises ``CannotListen`` for one that another has.
    """
    claims: list[socket.socket] = []
    for gpu in inventory.gpus:
        if gpu.device != "nvidia":
            continue
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        claims.append(claim)
        try:
            claim.bind(f"\0gpu-kernels/gpu/{gpu.uuid}")
        except OSError as error:
            for taken in claims:
                taken.close()
            raise CannotListen(f"another agent on this machine serves GPU {gpu.uuid}: {error}") from None
    return claims


def _alone(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
