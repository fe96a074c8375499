"""The processes: two controllers on one store, GPU servers' agents, clients; started, killed, stopped, and
healed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from gpu_kernels.spawner.ports import port_for_server

MIB = 1000
LEASE_TTL = 3.0
TERM_TTL = 1.5
AGENT_TTL = 3.0
FENCES_AFTER = 4.0
REPORT_EVERY = 1.0
ADMIN = "token-of-root"


class Process:
    """One program that is started again whenever it is killed."""

    def __init__(self, name: str, command: Sequence[str], log: Path, env: dict[str, str]) -> None:
        self.name, self.command, self._log, self._env = name, list(command), log, env
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped = False

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env=self._env)
        self.stopped = False

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.stopped = number == signal.SIGSTOP

    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def end(self, within: float) -> None:
        """By SIGTERM; killed where that does not do."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        try:
            self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.kill()


class Cluster:
    """Everything in one folder, on one store."""

    def __init__(self, folder: Path, database_url: str, *, clients: int, agents: int, seed: int) -> None:
        self.folder = folder
        self.history = folder / "history"
        self.history.mkdir()
        # Such as no client's connection is given while a controller is dead.
        self.ports = (port_for_server(), port_for_server())
        self.urls = ",".join(f"http://127.0.0.1:{port}" for port in self.ports)
        key = secrets.token_bytes(32)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTERHUB_", "GPU_KERNELS"))}
        self.controllers = [
            self._controller(number, port, database_url, key, clients)
            for number, port in enumerate(self.ports)
        ]
        self.agents = [self._agent(number) for number in range(agents)]
        self.clients = [self._client(number, seed) for number in range(clients)]

    def _controller(self, number: int, port: int, url: str, key: bytes, clients: int) -> Process:
        state = self.folder / f"controller-{number}"
        state.mkdir(mode=0o700)
        self._write_private(state / "lease-secret.key", key)
        self._write_private(state / "tokens.json", json.dumps(_tokens(clients)).encode())
        config = {
            "state_dir": str(state),
            "port": port,
            "database_url": url,
            "courses": {"load": {"V100": {"thousandths": 1_000_000}}},
            "lease_ttl": LEASE_TTL,
            "term_ttl": TERM_TTL,
            "agent_ttl": AGENT_TTL,
            "max_requests": 100_000.0,
            "token_cache": 0.0,
        }
        (state / "config.json").write_text(json.dumps({"PoolController": config}))
        command = [sys.executable, "-m", "gpu_kernels.pool", "--config", str(state / "config.json")]
        return Process(f"controller-{number}", command, self.folder / f"controller-{number}.log", self.env)

    def _agent(self, number: int) -> Process:
        script = self.folder / "worker"
        if not script.exists():
            here = Path(__file__).parent / "worker.py"
            script.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {here} "$@"\n')
            script.chmod(0o755)
        state = self.folder / f"agent-{number}"
        env = {
            **self.env,
            "GPU_KERNELS_CONTROLLER": self.urls,
            "GPU_KERNELS_TOKEN": f"token-of-server-{number}",
            "KILLS_HISTORY": str(self.history),
        }
        command = [
            *(
                sys.executable,
                "-m",
                "gpu_kernels.remoting.agent",
                "--name",
                f"server-{number}",
                "--state-dir",
                str(state),
            ),
            *("--device", "software", "--software-memory-mib", str(MIB), f"--AgentApp.worker={script}"),
            *("--fences-after", str(FENCES_AFTER), "--report-every", str(REPORT_EVERY)),
            *("--keep-environment", "KILLS_HISTORY", "--AgentApp.workers_as_root=True"),
        ]
        return Process(f"server-{number}", command, self.folder / f"server-{number}.log", env)

    def _client(self, number: int, seed: int) -> Process:
        history = self.history / f"user-{number}.client"
        command = [
            *(sys.executable, "-m", "benchmarks.kills.client"),
            *(self.urls, f"token-of-user-{number}", str(history), str(seed * 1000 + number)),
        ]
        return Process(f"user-{number}", command, self.folder / "clients.log", self.env)

    def _write_private(self, path: Path, data: bytes) -> None:
        path.touch(mode=0o600)
        path.write_bytes(data)

    def start(self) -> None:
        for process in (*self.controllers, *self.agents):
            process.start()
        self.until(lambda: len(self.pool()["gpus"]) == len(self.agents), 90.0, "the servers are there")
        for client in self.clients:
            client.start()

    def get(self, path: str) -> httpx.Response | None:
        """What the active controller answers; None where none does now."""
        for port in self.ports:
            with contextlib.suppress(httpx.HTTPError):
                answer = httpx.get(
                    f"http://127.0.0.1:{port}{path}",
                    headers={"Authorization": f"token {ADMIN}"},
                    timeout=2.0,
                    trust_env=False,
                )
                if answer.status_code == 200:
                    return answer
        return None

    def pool(self) -> dict[str, Any]:
        answer = self.get("/api/v1/pool")
        return {"gpus": []} if answer is None else answer.json()

    def active(self) -> Process | None:
        """The controller that answers now."""
        for port, controller in zip(self.ports, self.controllers, strict=True):
            with contextlib.suppress(httpx.HTTPError):
                answer = httpx.get(
                    f"http://127.0.0.1:{port}/api/v1/pool",
                    headers={"Authorization": f"token {ADMIN}"},
                    timeout=1.0,
                    trust_env=False,
                )
                if answer.status_code == 200:
                    return controller
        return None

    def until(self, holds: Any, within: float, what: str) -> None:
        end = time.monotonic() + within
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError(f"after {within:g} s it is still not so that {what}; see {self.folder}")
            time.sleep(0.1)

    def heal(self) -> None:
        for process in (*self.controllers, *self.agents):
            if process.stopped:
                process.signal(signal.SIGCONT)
            if process.ended():
                process.start()

    def settle(self) -> None:
        """Clients end; what they left behind runs out; then all must be free."""
        self.heal()
        for client in self.clients:
            if client.process is not None and not client.ended():
                client.signal(signal.SIGTERM)
        for client in self.clients:
            client.end(60.0)
        self.until(self._all_is_free, 90.0, "all slices are free")

    def _all_is_free(self) -> bool:
        gpus = self.pool()["gpus"]
        return len(gpus) == len(self.agents) and not any(gpu["used_mib"] for gpu in gpus)

    def mismatch(self) -> float:
        """What ``pool_ledger_mismatch`` reads at the end."""
        answers: list[httpx.Response | None] = []

        def answered() -> bool:
            answers.append(self.get("/metrics"))
            return answers[-1] is not None

        self.until(answered, 60.0, "a controller tells its metrics")
        lines = answers[-1].text.splitlines() if answers[-1] is not None else []
        found = [
            line for line in lines if line.startswith(("pool_ledger_mismatch", "gpu_pool_ledger_mismatch"))
        ]
        return float(found[0].split()[-1]) if found else float("nan")

    def end(self) -> None:
        for process in (*self.clients, *self.agents, *self.controllers):
            process.end(15.0)


def _tokens(clients: int) -> dict[str, Any]:
    entries: dict[str, Any] = {ADMIN: {"name": "root", "scopes": ["custom:gpu:admin:pool", "custom:gpu:use"]}}
    for number in range(16):
        entries[f"token-of-server-{number}"] = {"name": f"server-{number}", "scopes": ["custom:gpu:agent"]}
    for number in range(clients):
        entries[f"token-of-user-{number}"] = {
            "name": f"user-{number}",
            "groups": ["load"],
            "scopes": ["custom:gpu:use"],
        }
    return {hashlib.sha256(token.encode()).hexdigest(): entry for token, entry in entries.items()}
