"""What a worker's process gives up before it becomes the worker.

Runs in the child between fork and exec, so it touches nothing but C functions that were looked up before:
no imports, no locks, no logging.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import resource
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_libc = ctypes.CDLL(None, use_errno=True)
_prctl = _libc.prctl
_prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong]
PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38


@dataclass(frozen=True)
class Account:
    """An unprivileged account for workers."""

    uid: int
    gid: int


def account(name: str) -> Account:
    """The account called ``name``. Raises ``ValueError`` where there is none, or it cannot be used."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise ValueError(f"there is no account {name!r} to run workers under") from None
    if entry.pw_uid == 0:
        raise ValueError("workers must not run as root")
    if os.geteuid() not in (0, entry.pw_uid):
        raise ValueError(f"only root may run workers under another account ({name!r})")
    return Account(entry.pw_uid, entry.pw_gid)


def limit_numbers(limits: Mapping[str, int]) -> list[tuple[int, int]]:
    """``{"NOFILE": 4096}`` as numbers of the kernel. Raises ``ValueError`` for an unknown name."""
    numbers = []
    for name, value in limits.items():
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is None or value < 0:
            raise ValueError(f"{name}={value} is not a resource limit (such as NOFILE=4096)")
        numbers.append((number, value))
    return numbers


def confinement(parent: int, limits: list[tuple[int, int]]) -> Callable[[], None]:
    """What to run in the child, after it has changed its account: that change clears the death signal."""

    def confine() -> None:
        for number, value in limits:
            _, hard = resource.getrlimit(number)
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(number, (value, value))
        _prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the signal was set
            os._exit(1)

    return confine
