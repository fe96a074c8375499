"""File descriptors: how many a process may have, and how many connections that makes."""

from __future__ import annotations

import resource
from dataclasses import dataclass

KEPT = 128
"""For what is no client's connection: the ledger and its history, questions to the hub, logs, listeners."""
MOST_CONNECTIONS = 16_384
"""However many descriptors there are: each connection takes some 20 KiB of memory."""
MOST_UNPROVED = 2048


@dataclass(frozen=True, slots=True)
class Shares:
    """How the descriptors of a process are divided among its clients' connections."""

    unproved: int
    of_peer: int
    proved: int
    reserve: int


def raise_soft_limit() -> tuple[int, int]:
    """Raise the soft limit to the hard one; the soft limit before and now. Called at a process's start.

    1024, which logins and systemd give, is for programs that use select(); none of this project does.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or (hard != resource.RLIM_INFINITY and soft >= hard):
        return soft, soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):  # a hard limit above what the kernel allows any process
        return soft, soft
    return soft, hard


def shares(descriptors: int) -> Shares:
    """Divide so many descriptors: a quarter for those who have not said yet who they are, an eighth kept back
    for agents and renewals, the rest for users.
    """
    if descriptors == resource.RLIM_INFINITY:
        descriptors = MOST_CONNECTIONS + KEPT
    usable = max(16, min(MOST_CONNECTIONS, descriptors - min(KEPT, descriptors // 2)))
    unproved, reserve = min(MOST_UNPROVED, usable // 4), usable // 8
    return Shares(
        unproved=unproved,
        of_peer=max(1, unproved * 3 // 4),
        proved=usable - unproved - reserve,
        reserve=reserve,
    )
