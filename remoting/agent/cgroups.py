"""A cgroup for each worker, where a part of the cgroup v2 tree is the agent's own.

A process cannot leave its cgroup without a right that no worker has, and neither can what it starts: so
``cgroup.kill`` kills all of a worker at once, and ``populated 0`` says that nothing of it lives. Where the
controllers are delegated too, ``memory.max`` bounds what it takes of this machine's memory beyond what it
counts itself, and ``pids.max`` its threads.

systemd delegates by ``Delegate=yes`` in the agent's unit. Processes and controllers may not be in one cgroup
of the v2 tree, so the agent moves itself into a child, ``agent``, beside its workers'.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path

AUTO, OFF = "auto", "off"
CONTROLLERS = ("memory", "pids")
MOST_THREADS = 8192
"""A worker's lanes have a thread each, at most 1024, and a driver its own for every core."""
MINE = "agent"
PREFIX = "worker-"
DELEGATED = ("user.delegate", "trusted.delegate")


class NoCgroups(Exception):
    """Workers get no cgroups; the text says why, for the server's administrator."""


class Cgroup:
    """One worker's, made empty. Raises ``OSError``."""

    def __init__(self, folder: Path, most_mib: int) -> None:
        self.folder = folder
        folder.mkdir()
        self._limit("memory.max", most_mib << 20)
        self._limit("pids.max", MOST_THREADS)
        self.entrance = os.open(folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    def _limit(self, name: str, value: int) -> None:
        if (self.folder / name).exists():
            (self.folder / name).write_text(str(value))

    def kill(self) -> None:
        """Kill all that is in it, at once."""
        kill_all_in(self.folder)

    def emptied(self) -> bool:
        """Whether nothing lives in it, in no cgroup below it either."""
        return is_empty(self.folder)

    def close(self) -> None:
        """Only once it is empty."""
        os.close(self.entrance)
        with contextlib.suppress(OSError):
            self.folder.rmdir()


class Cgroups:
    """The agent's part of the tree. ``controllers`` is what its workers' cgroups can bound."""

    def __init__(self, setting: str) -> None:
        """``setting``: ``auto`` for the agent's own cgroup where it is delegated, or a folder of the cgroup
        v2 tree that is this agent's alone. Raises ``NoCgroups``."""
        self.folder = own_delegated() if setting == AUTO else Path(setting)
        self._lock = self._take()
        self._count = 0
        try:
            if setting == AUTO:
                self._make_room()
            self.controllers = self._enable()
        except OSError as error:
            os.close(self._lock)
            raise NoCgroups(f"the cgroup {self.folder} cannot be used: {error}") from None

    def make(self, most_mib: int) -> Cgroup:
        """An empty cgroup for one worker. Raises ``OSError``."""
        self._count += 1
        return Cgroup(self.folder / f"{PREFIX}{os.getpid()}-{self._count}", most_mib)

    def clear(self) -> bool:
        """Kill what an earlier agent's workers left here; whether nothing is left."""
        left = False
        for folder in self.folder.glob(f"{PREFIX}*"):
            if is_empty(folder):
                with contextlib.suppress(OSError):
                    folder.rmdir()
            else:
                left = True
                kill_all_in(folder)
        return not left

    def _take(self) -> int:
        try:
            if not (self.folder / "cgroup.procs").exists() or not (self.folder / "cgroup.events").exists():
                raise NoCgroups(f"{self.folder} is no folder of the cgroup v2 tree below its root")
            descriptor = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NoCgroups(f"another agent has the cgroup {self.folder}: each needs its own") from None
        except OSError as error:
            raise NoCgroups(f"the cgroup {self.folder} cannot be used: {error}") from None
        return descriptor

    def _make_room(self) -> None:
        mine = self.folder / MINE
        mine.mkdir(exist_ok=True)
        for pid in (self.folder / "cgroup.procs").read_text().split():
            (mine / "cgroup.procs").write_text(pid)

    def _enable(self) -> tuple[str, ...]:
        offered = (self.folder / "cgroup.controllers").read_text().split()
        for name in CONTROLLERS:
            if name in offered:
                with contextlib.suppress(OSError):
                    (self.folder / "cgroup.subtree_control").write_text(f"+{name}")
        enabled = (self.folder / "cgroup.subtree_control").read_text().split()
        trial = self.folder / f"{PREFIX}{os.getpid()}-0"
        trial.mkdir()  # raises where nothing can be made here
        trial.rmdir()
        return tuple(name for name in CONTROLLERS if name in enabled)


def own_delegated() -> Path:
    """This process's cgroup, where its whole subtree is its own to use. Raises ``NoCgroups``."""
    mount = next(mounts(), None)
    if mount is None:
        raise NoCgroups("this machine has no cgroup v2")
    own = next(
        (line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")),
        "",
    )
    folder = mount / own.lstrip("/")
    if not (folder / "cgroup.events").exists():
        raise NoCgroups("the agent runs in the root of the cgroup tree, which is not its own")
    if not os.access(folder, os.W_OK) or not (own == "/" or _is_delegated(folder)):
        raise NoCgroups(f"the agent's cgroup {own} is not delegated to it")
    return folder


def _is_delegated(folder: Path) -> bool:
    """By systemd's mark, or because the cgroup was given to this account, which is not root."""
    for name in DELEGATED:
        with contextlib.suppress(OSError):
            if os.getxattr(folder, name).strip(b"\0") == b"1":
                return True
    return os.geteuid() != 0 and folder.stat().st_uid == os.geteuid()


def mounts() -> Iterator[Path]:
    """Where cgroup v2 trees are mounted."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if after.split(" ", 1)[0] == "cgroup2":
            yield Path(before.split()[4])


def kill_all_in(folder: Path) -> None:
    """Kill what is in a cgroup and below it; returns at once."""
    try:
        (folder / "cgroup.kill").write_text("1")
    except FileNotFoundError:  # before Linux 5.14
        for procs in folder.rglob("cgroup.procs"):
            for pid in procs.read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
    except OSError:
        pass  # nothing is there any more, or ``is_empty`` will tell


def is_empty(folder: Path) -> bool:
    try:
        return "populated 0" in (folder / "cgroup.events").read_text()
    except FileNotFoundError:
        return True
