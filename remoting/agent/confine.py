"""What a worker's process gives up before it becomes the worker.

Runs in the child between fork and exec, so it touches nothing but C functions that were looked up before:
no imports, no locks, no logging.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_libc = ctypes.CDLL(None, use_errno=True)
_prctl = _libc.prctl
_prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong]
_capset = _libc.capset
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38
PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 23, 24, 47, 4
_NO_CAPABILITIES = ((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())


@dataclass(frozen=True)
class Account:
    """An unprivileged account for workers; ``own``: no other worker has it."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    own: bool = False


def limit_numbers(limits: Mapping[str, int]) -> list[tuple[int, int]]:
    """``{"NOFILE": 4096}`` as numbers of the kernel. Raises ``ValueError`` for an unknown name."""
    numbers = []
    for name, value in limits.items():
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is None or value < 0:
            raise ValueError(f"{name}={value} is not a resource limit (such as NOFILE=4096)")
        numbers.append((number, value))
    return numbers


def become(account: Account | None) -> None:
    """Change to the account, if there is one, and give up every capability, also those to gain. For a child
    of this process. Raises ``OSError``."""
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    number = 0
    while _prctl(PR_CAPBSET_READ, number, 0, 0, 0) >= 0:
        _prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # only root may, and only root has to
        number += 1
    if account is not None and os.getresuid() != (account.uid,) * 3:
        os.setgroups(account.groups)
        os.setresgid(account.gid, account.gid, account.gid)
        os.setresuid(account.uid, account.uid, account.uid)
    _capset(*_NO_CAPABILITIES)


def confinement(
    parent: int, limits: list[tuple[int, int]], account: Account | None = None, cgroup: int | None = None
) -> Callable[[], None]:
    """What to run in the child. ``cgroup``: the open ``cgroup.procs`` of the worker's cgroup. What it raises
    keeps the worker from being started."""

    def confine() -> None:
        if cgroup is not None:
            os.write(cgroup, b"0")
        for number, value in limits:
            _, hard = resource.getrlimit(number)
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(number, (value, value))
        become(account)
        _prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if account is not None and account.own:
            with contextlib.suppress(ProcessLookupError):  # it had none, as it should be
                os.kill(-1, signal.SIGKILL)
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # a change of account clears it
        if os.getppid() != parent:  # it died before the signal was set
            os._exit(1)

    return confine
