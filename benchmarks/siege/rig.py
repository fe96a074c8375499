"""What is besieged: a controller and a GPU server with software GPUs, each with a log of its own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from benchmarks.siege.plan import Plan
from gpu_kernels.client import PoolClient

COURSE = "siege"
SERVER = "server"
ATTACKER = "mallory"
ADMIN = "root"
GPU_MIB = 16384
GPUS = 2
LEASES_OF_A_GPU = 50
SOFT_DESCRIPTORS = 1024
"""What a login and systemd give: whoever wants more has to raise it."""
STARTS_WITHIN_S = 90.0
ENDS_WITHIN_S = 30.0
OUTER = ("GPU_KERNELS", "JUPYTERHUB_", "LD_")


def students(plan: Plan) -> list[str]:
    """Each student's name, which is the token too: nobody but this program can reach the controller."""
    return [f"student-{number}" for number in range(plan.leases)]


class Rig:
    """Runs as a context. ``processes``: by name, for whoever watches them."""

    url: str

    def __init__(self, plan: Plan, folder: Path) -> None:
        if plan.leases > LEASES_OF_A_GPU:
            raise ValueError(f"there is room for {LEASES_OF_A_GPU} leases beside the attacker's")
        self.plan, self.folder = plan, folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._env = {name: v for name, v in os.environ.items() if not name.startswith(OUTER)}

    def __enter__(self) -> Self:
        try:
            self._start_controller()
            self._start_agent()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._end()

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def environment(self) -> dict[str, str]:
        """This process's, without what belongs to another pool."""
        return dict(self._env)

    def _start(self, name: str, arguments: list[str], **more: str) -> None:
        limited = f'ulimit -Sn {SOFT_DESCRIPTORS}; exec "$@"'
        command = ["/bin/sh", "-c", limited, "sh", sys.executable, "-m", *arguments]
        with self.log(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._env | more
            )

    def _start_controller(self) -> None:
        state = self.folder / "pool"
        state.mkdir(mode=0o700)
        self._write_private(state / "tokens.json", json.dumps(self._tokens()))
        url_file = state / "url"
        settings = {
            "state_dir": str(state),
            "port": 0,
            "courses": {COURSE: {"V100": {"thousandths": 1000 * GPUS}}},
            "lease_ttl": self.plan.lease_ttl,
            "url_file": str(url_file),
        }
        self._write_private(state / "config.json", json.dumps({"PoolController": settings}))
        self._start("controller", ["gpu_kernels.pool", f"--config={state / 'config.json'}"])
        self._until("controller", url_file.exists)
        self.url = url_file.read_text()

    def _tokens(self) -> dict[str, object]:
        member = {"groups": [COURSE], "scopes": ["custom:gpu:use"]}
        entries: dict[str, dict[str, object]] = {
            name: {"name": name, **member} for name in (*students(self.plan), ATTACKER)
        }
        entries[SERVER] = {"name": SERVER, "scopes": ["custom:gpu:agent"]}
        entries[ADMIN] = {"name": ADMIN, "scopes": ["custom:gpu:admin:pool", "custom:gpu:admin:quota"]}
        return {hashlib.sha256(token.encode()).hexdigest(): entry for token, entry in entries.items()}

    def _start_agent(self) -> None:
        arguments = [
            "gpu_kernels.remoting.agent",
            f"--name={SERVER}",
            f"--controller={self.url}",
            "--device=software",
        ]
        arguments += [f"--state-dir={self.folder / 'agent'}", f"--report-every={self.plan.report_every}"]
        arguments += [
            f"--machine-memory-mib={4 * GPUS * GPU_MIB}",
            f"--software-memory-mib={GPU_MIB}",
            f"--AgentApp.software_count={GPUS}",
        ]
        self._start("agent", [*arguments, "--software-threads=1"], GPU_KERNELS_TOKEN=SERVER)
        with PoolClient(self.url, ADMIN) as admin:
            self._until("agent", lambda: len(admin.pool().gpus) == GPUS)

    def _until(self, name: str, holds: object) -> None:
        end = time.monotonic() + STARTS_WITHIN_S
        while not holds():  # type: ignore[operator]
            if self.processes[name].poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the {name} did not start: {self.log(name).read_text()[-2000:]}")
            time.sleep(0.05)

    def _write_private(self, path: Path, text: str) -> None:
        path.touch(mode=0o600)
        path.write_text(text)

    def _end(self) -> None:
        for process in reversed(self.processes.values()):
            process.terminate()
            try:
                process.wait(ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
