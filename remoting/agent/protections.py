"""What protects this machine and other leases from a worker that somebody has taken over: what of it is in
force here, and what to do about the rest. The agent says it at each start, and ``jupyter gpu check --agent``.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pwd
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpu_kernels.private_file import write_private
from gpu_kernels.remoting.agent.cells import Cells
from gpu_kernels.remoting.agent.cgroups import CONTROLLERS
from gpu_kernels.remoting.agent.confine import PR_SET_DUMPABLE
from gpu_kernels.remoting.agent.settings import WorkerSettings

FILE_NAME = "protections.json"
OOM_SCORE = Path("/proc/self/oom_score_adj")
LAST_TO_GO = -900
SECCOMP_ACTIONS = Path("/proc/sys/kernel/seccomp/actions_avail")
NEEDED_ACTIONS = {"kill_process", "errno"}
UNIT = "docs/how-to/set-up-a-pool-without-a-hub.md has a systemd unit that does"


@dataclass(frozen=True)
class Protection:
    """``advice`` says what to do where it is not ``in_force``, or not wholly."""

    name: str
    in_force: bool
    detail: str
    advice: str = ""


def protect_this_process() -> None:
    """Let the kernel take others before this agent when memory ends, and let no process of the same account
    read its memory. To be called before its first worker: what it may not do, ``protections`` tells."""
    with contextlib.suppress(OSError):
        if int(OOM_SCORE.read_text()) > LAST_TO_GO:
            OOM_SCORE.write_text(str(LAST_TO_GO))
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def protections(cells: Cells, settings: WorkerSettings) -> list[Protection]:
    """All of them, for an agent with these cells."""
    return [_account(cells, settings), _system_calls(settings), _cgroup(cells), _memory_end()]


def _account(cells: Cells, settings: WorkerSettings) -> Protection:
    if cells.accounts is not None:
        detail = f"each worker has its own, of {cells.accounts.first}-{cells.accounts.last}"
        return Protection("account", True, detail)
    if cells.named is not None and cells.named.uid != os.geteuid():
        detail = (
            f"all workers share {settings.user}: they reach nothing of the agent's, but may end each other"
        )
        return Protection("account", True, detail)
    if os.geteuid() == 0:
        return Protection(
            "account",
            False,
            "workers are root's: who takes one over may have this machine, the agent's token and every lease",
            "Leave 'workers_as_root' out: each worker then has an account of its own.",
        )
    return Protection(
        "account",
        False,
        f"workers have the agent's own, {_name(os.geteuid())}: who takes one over may read the agent's token "
        "file and whatever else this account may, and end other workers where no filter holds him",
        f"Run the agent as root, which then gives each worker an account; {UNIT}.",
    )


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _system_calls(settings: WorkerSettings) -> Protection:
    name = "system calls"
    if settings.seccomp == "off":
        return Protection(name, False, "not filtered (worker_seccomp is off)", "Set it to 'required'.")
    try:
        has = set(SECCOMP_ACTIONS.read_text().split()) >= NEEDED_ACTIONS
    except OSError:
        has = False
    if has:
        return Protection(name, True, "filtered by seccomp, and no capabilities")
    served = "workers serve without" if settings.seccomp == "optional" else "no worker serves here"
    return Protection(
        name,
        False,
        f"this kernel has no seccomp of Linux 4.14 or newer: {served}",
        "Use a kernel with CONFIG_SECCOMP_FILTER; 'worker_seccomp' decides whether to serve without it.",
    )


def _cgroup(cells: Cells) -> Protection:
    if cells.cgroups is None:
        instead = (
            "all processes of a worker's account are killed instead"
            if cells.accounts is not None
            else "what a worker leaves behind is found as the agent's orphan; that rests on seccomp, too"
        )
        return Protection("cgroup", False, f"{cells.no_cgroups}; {instead}", f"Delegate one: {UNIT}.")
    missing = [name for name in CONTROLLERS if name not in cells.cgroups.controllers]
    if missing:
        return Protection(
            "cgroup",
            False,
            f"each worker is killed by its own in {cells.cgroups.folder}, but not bounded: the controllers "
            f"{' and '.join(missing)} are not delegated",
            "Write Delegate=memory pids into the agent's unit.",
        )
    return Protection(
        "cgroup", True, f"each worker is killed and bounded by its own in {cells.cgroups.folder}"
    )


def _memory_end() -> Protection:
    score = int(OOM_SCORE.read_text())
    if score <= LAST_TO_GO:
        return Protection("end of memory", True, f"the agent goes last (oom_score_adj {score})")
    return Protection(
        "end of memory",
        False,
        f"workers go before the agent, but other processes may not (its oom_score_adj is {score}; "
        f"{LAST_TO_GO} needs the right CAP_SYS_RESOURCE)",
        f"Write OOMScoreAdjust={LAST_TO_GO} into the agent's unit.",
    )


def keep(found: list[Protection], folder: Path) -> None:
    """For ``jupyter gpu check --agent``. Raises ``OSError``."""
    said = {"pid": os.getpid(), "protections": [asdict(each) for each in found]}
    write_private(folder / FILE_NAME, json.dumps(said))


def kept(folder: Path) -> tuple[int, list[Protection]]:
    """The agent's process, and what it said. Raises ``OSError`` or ``ValueError``."""
    said: dict[str, Any] = json.loads((folder / FILE_NAME).read_text())
    return int(said["pid"]), [Protection(**each) for each in said["protections"]]


def workers_of(agent: int, found: list[Protection]) -> Iterator[tuple[int, list[str]]]:
    """Each worker that lives now, by the agent's process, and what the kernel says that it may still do, of
    what ``found`` says that it may not."""
    expected = {each.name for each in found if each.in_force}
    for task in Path(f"/proc/{agent}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for pid in map(int, task.read_text().split()):
                yield pid, _loose(agent, pid, expected)


def _loose(agent: int, pid: int, expected: set[str]) -> list[str]:
    mine, theirs = _status(agent), _status(pid)
    found = []
    if "account" in expected and theirs["Uid"] == mine["Uid"]:
        found.append("it has the agent's account")
    if int(theirs["CapEff"], 16) or int(theirs["CapPrm"], 16):
        found.append("it has capabilities")
    if "system calls" in expected and theirs.get("Seccomp", "0").strip() != "2":
        found.append("its system calls are not filtered")
    if theirs["NoNewPrivs"].strip() != "1":
        found.append("it may gain rights")
    return found


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)
