"""The accounts that workers run under.

An agent that is root gives each worker an account of its own: a number out of a range that belongs to nobody.
Such an account opens nothing of the agent's, and can signal, trace and read no other worker: what the kernel
compares are the numbers. It needs no entry in ``passwd``, no home and no shell. And since a worker can never
get another account (``no_new_privs``, no capabilities), all processes of its account are all that it ever
started: killing them leaves nothing of it alive, in whatever session and group they are.

One account for all workers, ``worker_user``, keeps them away from the agent, but not from each other.
"""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import re
import secrets
import signal
import socket
import stat
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpu_kernels.remoting.agent.confine import Account, become

UNUSED_UIDS = "1900000000-1900065535"
"""Above what distributions, systemd (homes, services, containers) and subuid hand out."""
FEWEST, LOWEST = 2, 1000
UID_MAP = Path("/proc/self/uid_map")
NOTHING_LEFT, CANNOT, FIRST = 0, 2, 3
NVIDIA_DEVICES = ("/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/dri/renderD*")


class Accounts:
    """A range of accounts, one lent to each worker. An account is claimed on the machine while it is lent,
    so that two agents do not lend the same one."""

    def __init__(self, text: str, groups: tuple[int, ...] = ()) -> None:
        """``text`` is FIRST-LAST; ``groups`` are supplementary ones. Raises ``ValueError`` for what is no
        range of accounts that this process could give away."""
        self.first, self.last = _parse(text)
        self._groups = groups
        self._claims: dict[int, socket.socket] = {}
        # What a worker of the last run left on disk is not the next one's, as far as that can be avoided.
        self._next = self.first + secrets.randbelow(self.last - self.first + 1)

    def lend(self) -> Account:
        """An account that no worker has. Raises ``OSError`` where all are lent."""
        count = self.last - self.first + 1
        for step in range(count):
            uid = self.first + (self._next - self.first + step) % count
            if uid not in self._claims and (claim := _claimed(uid)):
                self._claims[uid] = claim
                self._next = uid + 1
                return Account(uid, uid, self._groups, own=True)
        raise OSError(f"all {count} accounts for workers ({self.first}-{self.last}) are lent")

    def take_back(self, account: Account) -> None:
        if claim := self._claims.pop(account.uid, None):
            claim.close()


def named_account(name: str, groups: tuple[int, ...] = ()) -> Account:
    """The account called ``name``. Raises ``ValueError`` where there is none, or it cannot be used."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise ValueError(f"there is no account {name!r} to run workers under") from None
    if entry.pw_uid == 0:
        raise ValueError("workers must not run as root")
    if os.geteuid() not in (0, entry.pw_uid):
        raise ValueError(f"only root may run workers under another account ({name!r})")
    return Account(entry.pw_uid, entry.pw_gid, groups)


def device_groups(patterns: Iterable[str] = NVIDIA_DEVICES) -> tuple[int, ...]:
    """The groups without which NVIDIA's devices cannot be opened; none where everybody may open them, and
    never root's."""
    groups = set()
    for path in (path for pattern in patterns for path in glob.glob(pattern)):
        with contextlib.suppress(OSError):
            about = os.stat(path)
            everybody = about.st_mode & 0o006 == 0o006
            if stat.S_ISCHR(about.st_mode) and not everybody and about.st_mode & 0o060 == 0o060:
                groups.add(about.st_gid)
    return tuple(sorted(groups - {0}))


def out_of_reach(paths: Iterable[Path], account: Account) -> Path | None:
    """The first of these files, and of the folders above them, that the account may not use; None if all are
    in reach. Asks the kernel, in a child that has become the account. Raises ``ValueError`` where nothing
    can."""
    steps = [step for path in paths for step in (*reversed(path.resolve().parents), path.resolve())]

    def look() -> None:
        become(account)
        for index, step in enumerate(steps):
            if not os.access(step, os.X_OK if step.is_dir() else os.R_OK):
                os._exit(FIRST + index)
        os._exit(NOTHING_LEFT)

    status = _in_child(look)
    if status == CANNOT:
        raise ValueError(f"the agent cannot start a process of the account {account.uid}")
    return steps[status - FIRST] if status >= FIRST else None


def may_be_given(paths: Iterable[Path]) -> bool:
    """Whether this process may give workers accounts of their own that may use these files."""
    try:
        return out_of_reach(paths, Accounts(UNUSED_UIDS).lend()) is None
    except (OSError, ValueError):
        return False


def kill_all_of(account: Account) -> bool:
    """Kill every process of an account that is one worker's own; whether none is left. To be called again
    until it is so: a process that was killed takes its time.

    The kernel kills them in one step, in which none of them can fork. It does not say whether there were any;
    but what a look through ``/proc`` does not find after that step is not there.
    """

    def kill() -> None:
        become(account)
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        os._exit(NOTHING_LEFT)

    return _in_child(kill) == NOTHING_LEFT and not any(_lives_as(account.uid))


def _lives_as(uid: int) -> Iterator[int]:
    """The processes of an account that have not ended."""
    own = f"\nUid:\t{uid}\t"
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                status = Path(entry.path, "status").read_text()
                if own in status and "\nState:\tZ" not in status:
                    yield int(entry.name)


def _in_child(action: object) -> int:
    """The status with which ``action`` ends a child of this process; ``CANNOT`` where it fails."""
    try:
        return subprocess.run(["/"], preexec_fn=action, check=False).returncode  # type: ignore[call-overload,no-any-return]
    except (OSError, subprocess.SubprocessError):
        return CANNOT


def _claimed(uid: int) -> socket.socket | None:
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0gpu-kernels/account/{uid}")
    except OSError:
        claim.close()
        return None
    return claim


def _parse(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,10})-(\d{1,10})", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no range of accounts, such as {UNUSED_UIDS}")
    first, last = int(found[1]), int(found[2])
    if first < LOWEST or last > 2**32 - 3 or last - first + 1 < FEWEST:
        raise ValueError(f"{text}: a range of accounts has at least {FEWEST} numbers, from {LOWEST} on")
    if not _mapped(first, last):
        raise ValueError(
            f"the accounts {text} do not exist here (see /proc/self/uid_map; a container has its own). Name "
            "others in worker_uids, as many as there can be leases, or one account in worker_user"
        )
    return first, last


def _mapped(first: int, last: int) -> bool:
    try:
        entries = [[int(word) for word in line.split()] for line in UID_MAP.read_text().splitlines()]
    except OSError:
        return True
    return any(inside <= first and last < inside + count for inside, _, count in entries)
