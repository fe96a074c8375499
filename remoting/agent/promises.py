"""What the agents of one machine promise of its memory, each for its software GPUs.

A promise is a listening abstract socket whose name says how much it is: all of a network namespace see it in
/proc/net/unix, and it goes with the agent, however that ends. Anybody may bind such a name, so the kernel is
asked whose it is: what root and the agent's own account claim counts, and nobody else's word. One agent at a
time looks what is left and takes its part.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_kernels.remoting.machine_memory import MachineMemory

PREFIX = "gpu-kernels/software-memory"
SOCKETS = Path("/proc/net/unix")
WITHIN_S = 10.0
BETWEEN_LOOKS_S = 0.02
SHOWN_WITHIN_S = 1.0
"""How long it may take, for all claims together, to be told whose they are."""
# The seven columns before a socket's name, where "@" says that it is no file's.
_CLAIM = re.compile(rb"(?:\S+ +){7}@" + PREFIX.encode() + rb"/(\d{1,10})/([0-9a-f]{8})/(\d{1,12})")


class NoMemoryLeft(Exception):
    """Nothing can be offered here; the text is for who runs the agent."""


@dataclass(frozen=True)
class Claim:
    """What process ``pid``, by its own word and in its own numbers, has promised. ``account``: whose it is by
    the kernel's word, None where that cannot be had."""

    pid: int
    mib: int
    account: int | None

    @property
    def counts(self) -> bool:
        return self.account in (0, os.geteuid())


@dataclass(frozen=True)
class Promise:
    """In force until ``claim`` is closed, or the process ends. ``each_mib`` is what each software GPU may
    offer, ``text`` how that came about."""

    each_mib: int
    reduced: bool
    text: str
    claim: socket.socket | None = None


def promise(memory: MachineMemory, asked_mib: int, count: int, least_mib: int) -> Promise:
    """Promise up to ``asked_mib`` for each of ``count`` software GPUs. Raises ``NoMemoryLeft`` where that
    would be less than ``least_mib``."""
    if memory.told:
        return _within(memory, asked_mib, count, least_mib, ())
    with _alone():
        made = _within(memory, asked_mib, count, least_mib, claims())
        return Promise(made.each_mib, made.reduced, made.text, _claim(made.each_mib * count))


def claims() -> list[Claim]:
    """What is claimed of this machine's memory, by whomever."""
    # In bytes: a name may be any. A connection to a claim has its name too, and is no second one.
    lines = SOCKETS.read_bytes().split(b"\n")
    found = {each.groups() for each in map(_CLAIM.fullmatch, lines) if each}
    until = time.monotonic() + SHOWN_WITHIN_S
    return [
        Claim(
            int(pid), int(mib), _account(f"\0{PREFIX}/{pid.decode()}/{code.decode()}/{mib.decode()}", until)
        )
        for pid, code, mib in sorted(found)
    ]


def _within(
    memory: MachineMemory, asked_mib: int, count: int, least_mib: int, found: Sequence[Claim]
) -> Promise:
    others = [claim for claim in found if claim.counts]
    each = min(asked_mib, max(0, memory.software_mib - sum(claim.mib for claim in others)) // count)
    told = [f"process {claim.pid} offers {claim.mib}" for claim in others]
    if strange := [claim for claim in found if not claim.counts]:
        told.append(f"not counted is what {_accounts(strange)} would offer, {sum(c.mib for c in strange)}")
    beside = ", ".join(told)
    why = (
        f"{memory.mib} MiB ({memory.source}), of which {memory.reserve_mib} are kept for the rest of it and "
        f"at least {memory.room_mib // 4} for workers themselves" + (f"; {beside}" if beside else "")
    )
    if each < least_mib:
        raise NoMemoryLeft(
            f"no memory is left for a software GPU: this machine has {why}. Stop what offers it, or say "
            "what part of the machine is this agent's: machine_memory_mib, or GPU_KERNELS_MACHINE_MEMORY_MIB"
        )
    text = f"{count} software GPU{'s' if count > 1 else ''} with {each} MiB"
    if each < asked_mib:
        return Promise(each, True, f"{text}, not {asked_mib} as configured: this machine has {why}")
    return Promise(each, False, f"{text}; this machine has {why}")


def _accounts(found: Sequence[Claim]) -> str:
    known = sorted({claim.account for claim in found if claim.account is not None})
    return f"user {', '.join(map(str, known))}" if known else "somebody who does not say so"


def _claim(mib: int) -> socket.socket:
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Agents of several containers may all be process 1 of theirs.
    while not _bound(claim, f"\0{PREFIX}/{os.getpid()}/{secrets.token_hex(4)}/{mib}"):
        pass
    claim.listen(socket.SOMAXCONN)
    threading.Thread(target=_be_seen, args=(claim,), name="promise", daemon=True).start()
    return claim


def _be_seen(claim: socket.socket) -> None:
    """Take what connects: a queue that is full would keep others from seeing whose the claim is."""
    while True:
        try:
            claim.accept()[0].close()
        except OSError:
            if claim.fileno() < 0:
                return
            time.sleep(BETWEEN_LOOKS_S)  # for want of descriptors


def _bound(this: socket.socket, name: str) -> bool:
    """Whether it has that name now; somebody else has it otherwise."""
    try:
        this.bind(name)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True


def _account(name: str, until: float) -> int | None:
    """Who listens there: the user's number, as the kernel noted it then."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asks:
        asks.setblocking(False)
        while True:
            try:
                asks.connect(name)
                break
            except BlockingIOError:  # its queue is full
                if time.monotonic() > until:
                    return None
                time.sleep(BETWEEN_LOOKS_S)
            except OSError:
                return None
        found = struct.unpack("iII", asks.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(found[1])


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Raises ``NoMemoryLeft`` where another process does not let go of it, and says whose that is."""
    until = time.monotonic() + WITHIN_S
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        while not _bound(lock, f"\0{PREFIX}"):
            if time.monotonic() > until:
                account = _account(f"\0{PREFIX}", until)
                whose = "" if account is None else f" of user {account}"
                raise NoMemoryLeft(
                    f"another process{whose} has been looking for memory to promise for "
                    f"{WITHIN_S:g} s: end it, or set machine_memory_mib"
                )
            time.sleep(BETWEEN_LOOKS_S)
        lock.listen()
        yield
