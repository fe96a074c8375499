"""What holds one worker, so that it reaches nothing else and nothing of it outlives its end.

| where | what says that nothing of a worker lives |
|---|---|
| it has a cgroup | the cgroup is empty |
| else, it has an account of its own | no process has the account |
| else, the agent is a process of its own | the agent, to whom orphans come, has no child but its workers |

The last rests on the worker's own filter as well: a worker that cannot fork (``seccomp.cc``) leaves nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path

from gpu_kernels.remoting.agent.accounts import (
    Accounts,
    device_groups,
    kill_all_of,
    named_account,
    out_of_reach,
)
from gpu_kernels.remoting.agent.cgroups import OFF, Cgroup, Cgroups, NoCgroups
from gpu_kernels.remoting.agent.confine import Account, confinement, limit_numbers
from gpu_kernels.remoting.agent.gpus import Inventory
from gpu_kernels.remoting.agent.settings import WorkerSettings
from gpu_kernels.remoting.environment import SOFTWARE

PR_SET_CHILD_SUBREAPER = 36
BETWEEN_LOOKS_S = 0.05
BESIDE_MIB = 2048
"""What a worker's cgroup may take beyond what the worker counts: a real driver's own memory, and threads'."""


class Cell:
    """One worker's, from before its process exists until nothing of it lives."""

    def __init__(self, account: Account | None, cgroup: Cgroup | None, strays: Strays | None) -> None:
        self.account = account
        self.cgroup = cgroup
        self._strays = strays

    def kill(self) -> None:
        """Kill all that is in it, as far as that can be done at once."""
        if self.cgroup is not None:
            self.cgroup.kill()

    def emptied(self) -> bool:
        """Whether nothing of the worker lives; kills what does. To be asked when its own process has been
        waited for, again and again until it is so."""
        no_orphans = self._strays is None or self._strays.none_left()  # also waits for what was killed
        if self.cgroup is not None and not self.cgroup.emptied():
            self.cgroup.kill()
            return False
        if self.cgroup is None and self.account is not None and self.account.own:
            return kill_all_of(self.account) and no_orphans
        return no_orphans


class Cells:
    """Makes cells by the settings; tells what they are (``protections.py``)."""

    def __init__(self, inventory: Inventory, settings: WorkerSettings, log: logging.Logger) -> None:
        """Raises ``ValueError`` for settings that cannot work."""
        self._limits = limit_numbers(settings.rlimits)
        self._agent = os.getpid()
        nvidia = any(gpu.device != SOFTWARE for gpu in inventory.gpus)
        self.groups = device_groups() if nvidia else ()
        self.accounts = Accounts(settings.uids, self.groups) if settings.uids else None
        self.named = named_account(settings.user, self.groups) if settings.user else None
        self._see_that_workers_can_start(inventory, settings)
        self.cgroups, self.no_cgroups = None, "they are turned off (worker_cgroups)"
        if settings.cgroups != OFF:
            try:
                self.cgroups = Cgroups(settings.cgroups)
            except NoCgroups as error:
                self.no_cgroups = str(error)
        self.strays = Strays(log) if settings.takes_orphans else None

    def make(self, most_mib: int) -> Cell:
        """A cell for one worker, which may take so much memory of this machine. Raises ``OSError``."""
        account = self.accounts.lend() if self.accounts else self.named
        try:
            cgroup = self.cgroups.make(most_mib + BESIDE_MIB) if self.cgroups else None
        except OSError:
            self._take_back(account)
            raise
        return Cell(account, cgroup, self.strays)

    def confinement(self, cell: Cell) -> Callable[[], None]:
        """What the cell's worker runs before it becomes the worker."""
        entrance = cell.cgroup.entrance if cell.cgroup else None
        return confinement(self._agent, self._limits, cell.account, entrance)

    def started(self, pid: int) -> None:
        if self.strays is not None:
            self.strays.known.add(pid)

    def close(self, cell: Cell, pid: int | None = None) -> None:
        """Take back what the cell had; only once it is empty."""
        if self.strays is not None and pid is not None:
            self.strays.known.discard(pid)
        if cell.cgroup is not None:
            cell.cgroup.close()
        self._take_back(cell.account)

    async def none_left(self) -> None:
        """Kill what an earlier agent's workers left in the cgroups of this one, and wait until it is gone."""
        if self.cgroups is not None:
            while not self.cgroups.clear():  # noqa: ASYNC110 - the kernel wakes nobody for this
                await asyncio.sleep(BETWEEN_LOOKS_S)

    def _take_back(self, account: Account | None) -> None:
        if self.accounts is not None and account is not None:
            self.accounts.take_back(account)

    def _see_that_workers_can_start(self, inventory: Inventory, settings: WorkerSettings) -> None:
        account = self.accounts.lend() if self.accounts else self.named
        if account is None or os.geteuid() != 0:
            return
        files = [settings.program]
        if any(gpu.device == SOFTWARE for gpu in inventory.gpus):
            files.append(settings.native.softgpu_driver)
        try:
            wall = out_of_reach([path for path in files if path.exists()], account)
        finally:
            self._take_back(account)
        if wall is not None:
            raise ValueError(
                f"workers run under an account of their own ({account.uid}), which may not use {wall}. "
                "Install the package where every account may read it, or allow it (chmod o+rx); "
                "'worker_user' names another account, and 'workers_as_root' leaves them root's, with "
                "all that root may do"
            )


class Strays:
    """Descendants of workers that left them: an orphan becomes the child of the nearest ancestor that takes
    orphans, which the agent does. For an agent that is a process of its own: each child of this process is a
    worker, or a stray."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self.known: set[int] = set()
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def none_left(self) -> bool:
        """Whether there is no stray; kills and waits for those that there are."""
        strays = self._children() - self.known
        for pid in strays:
            self._log.warning("process %d is what a worker left behind: killing it", pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        return not strays

    def _children(self) -> set[int]:
        found: set[int] = set()
        for task in Path("/proc/self/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found |= {int(pid) for pid in task.read_text().split()}
        return found
