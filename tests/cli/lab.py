"""A real controller and a real agent as processes, for the command's tests. The worker is ``echo_worker``,
so that nothing waits for CUDA, or the real one where CUDA is what is tested."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from gpu_kernels.client import Lease, PoolClient
from gpu_kernels.remoting.machine_memory import VARIABLE as MACHINE_MEMORY

COURSE = "ml101"
TOKENS = {
    "ada-token": {"name": "ada", "groups": [COURSE], "scopes": ["custom:gpu:use"]},
    "bob-token": {"name": "bob", "groups": [], "scopes": ["custom:gpu:use"]},
    "iris-token": {"name": "iris", "groups": [f"{COURSE}-instructors"], "scopes": ["custom:gpu:use"]},
    "admin-token": {"name": "root", "scopes": ["custom:gpu:admin:pool", "custom:gpu:admin:quota"]},
    "agent-token": {"name": "server-1", "scopes": ["custom:gpu:agent!server=server-1"]},
}
ENDED = ("released", "expired", "revoked", "freed")
OWN = ("GPU_KERNELS_", "JUPYTERHUB_", "JPY_", "LD_")


class Lab:
    """``env`` is a student's environment; ``ada`` and ``admin`` are clients of the pool."""

    def __init__(
        self,
        folder: Path,
        lease_ttl: float,
        *,
        worker: str = "echo-worker",
        python: str | Path = sys.executable,
    ) -> None:
        """``python`` runs the services, with the package that it has."""
        self.folder, self._python = folder, python
        folder.mkdir(mode=0o700, exist_ok=True)
        tokens = {hashlib.sha256(token.encode()).hexdigest(): who for token, who in TOKENS.items()}
        (folder / "tokens.json").write_text(json.dumps(tokens))
        (folder / "tokens.json").chmod(0o600)
        config = {
            "courses": {COURSE: {"V100": {"thousandths": 100}}},
            "lease_ttl": lease_ttl,
            "sweep_interval": lease_ttl / 10,
        }
        (folder / "config.json").write_text(json.dumps({"PoolController": config}))
        self.started: list[subprocess.Popen[str]] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start_controller()
        self._start_agent(worker)
        self.env = outside_environment() | {
            "GPU_KERNELS_CONTROLLER": self.url,
            "GPU_KERNELS_TOKEN": "ada-token",
        }
        self.ada = PoolClient(self.url, "ada-token")
        self.admin = PoolClient(self.url, "admin-token")
        wait_until(lambda: any(gpu.available for gpu in self.ada.pool().gpus))

    def _start(self, command: list[str], env: Mapping[str, str]) -> None:
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [self._python, "-m", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
                cwd=self.folder,
            )
        self._processes.append(process)

    def _start_controller(self) -> None:
        url_file = self.folder / "url"
        command = ["gpu_kernels.pool", "--port=0", f"--state-dir={self.folder}"]
        command += [f"--config={self.folder / 'config.json'}", f"--PoolController.url_file={url_file}"]
        self._start(command, outside_environment())
        wait_until(lambda: url_file.exists() or self._processes[0].poll() is not None)
        assert url_file.exists(), (self.folder / "log").read_text()
        self.url = url_file.read_text()

    def _start_agent(self, worker: str) -> None:
        command = [
            "gpu_kernels.remoting.agent",
            "--name=server-1",
            f"--controller={self.url}",
            "--device=software",
        ]
        command += [f"--state-dir={self.folder / 'agent'}"]
        if worker == "echo-worker":
            # Only root may read what stands in for a worker.
            command += [f"--AgentApp.worker={self._echo_worker()}", "--AgentApp.workers_as_root=True"]
        self._start(command, outside_environment() | {"GPU_KERNELS_TOKEN": "agent-token"})

    def _echo_worker(self) -> Path:
        worker = self.folder / "echo-worker"
        echo = Path(__file__).parent.parent / "agent" / "echo_worker.py"
        worker.write_text(f'#!/bin/sh\nexec {sys.executable} -I {echo} "$@"\n')
        worker.chmod(0o755)
        return worker

    def close(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait(60)
        self.ada.close()
        self.admin.close()

    def leases(self) -> list[Lease]:
        """The student's leases that hold a slice or wait for one."""
        return [lease for lease in self.ada.list() if lease.state not in ENDED]

    def used_mib(self) -> int:
        return sum(gpu.used_mib for gpu in self.ada.pool().gpus)

    def nothing_in_use(self) -> bool:
        return self.leases() == [] and self.used_mib() == 0

    def gpu(self, *arguments: str, within: float = 100, **env: str) -> subprocess.CompletedProcess[str]:
        """Run ``jupyter gpu`` to its end."""
        return subprocess.run(
            command(*arguments),
            env=self.env | env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )

    def start_gpu(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        """Start ``jupyter gpu`` with pipes."""
        process = subprocess.Popen(
            command(*arguments),
            env=self.env | env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def end_started(self) -> None:
        """End what a failed test has left."""
        while self.started:
            process = self.started.pop()
            if process.poll() is None:
                process.terminate()
            process.communicate()


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gpu_kernels.cli", *arguments]


def outside_environment() -> dict[str, str]:
    """This process's environment, without what belongs to a pool, a hub or a kernel."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    return kept | {MACHINE_MEMORY: os.environ.get(MACHINE_MEMORY, "65536")}


def wait_until(holds: Callable[[], bool], within: float = 60.0) -> None:
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
