"""A whole controller on a free port: its own event loop in a thread, or its own process to be killed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx
from traitlets.config import Config

from gpu_kernels.client import Assignment, Lease, PoolClient, Slot
from gpu_kernels.pool.app import PoolController
from gpu_kernels.resources.agents import AgentReport, LiveLease, OfferedGpu, Registration
from gpu_kernels.spawner.ports import port_for_server

ADDRESS = "tcp://127.0.0.1:1024"
"""Nobody listens there: the port is below those that programs are given."""
GPU = {
    "uuid": "GPU-1",
    "index": 0,
    "gpu_class": "V100",
    "device": "software",
    "name": "Software GPU",
    "total_mib": 33000,
    "allocatable_mib": 32768,
}
TOKENS: dict[str, dict[str, Any]] = {
    "ada": {"groups": ["ml101"], "scopes": ["custom:gpu:use!user=ada"]},
    "bob": {"groups": ["ml101"], "scopes": ["custom:gpu:use!user=bob"]},
    "eve": {"groups": ["cv202"], "scopes": ["custom:gpu:use"]},
    "eve-lab": {"name": "eve", "groups": ["cv202"], "scopes": ["custom:gpu:use!server=eve/lab"]},
    "guest": {"groups": ["ml101"], "scopes": []},
    "grace": {"groups": ["ml101-instructors"], "scopes": ["custom:gpu:use"]},
    "dean": {"scopes": ["custom:gpu:admin:quota!group=ml101"]},
    "root": {"scopes": ["custom:gpu:admin:pool", "custom:gpu:admin:quota"]},
    "panel": {"scopes": ["custom:gpu:read:usage"]},
    "machinist": {"scopes": ["custom:gpu:admin:pool"]},
    "part": {"scopes": ["custom:gpu:admin:pool!group=ml101"]},
    "gpu-server": {"scopes": [f"custom:gpu:agent!server=gpu{number}" for number in range(40)]},
    "other-server": {"scopes": ["custom:gpu:agent!server=gpu2"]},
    "gpu7": {"scopes": ["custom:gpu:agent"]},
    "late": {
        "groups": ["ml101"],
        "scopes": ["custom:gpu:use"],
        "expires_at": "2020-01-01T00:00:00Z",
    },
}
COURSES = {"ml101": {"V100": {"thousandths": 100}}, "cv202": {"V100": {"thousandths": 1000}}}


def token(name: str) -> str:
    return f"token-of-{name}"


def write_tokens(path: Path) -> None:
    entries = {
        hashlib.sha256(token(name).encode()).hexdigest(): {"name": name, **entry}
        for name, entry in TOKENS.items()
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(entries))


def configuration(state: Path, **traits: Any) -> dict[str, Any]:
    return {
        "state_dir": str(state),
        "port": 0,
        "courses": COURSES,
        "token_cache": 0.0,
        "check_answers": True,
        **traits,
    }


class Agent:
    """A GPU server that does at once what it is told, and runs nothing."""

    def __init__(self, client: PoolClient, name: str = "gpu1", boot: str = "1") -> None:
        self.client, self.name, self.boot = client, name, boot
        self.done, self.counts_by = 0, ""

    def register(self, address: str = ADDRESS, **gpu: Any) -> None:
        self.client.register_agent(
            self.name, Registration(self.boot, address, "1", (OfferedGpu(**{**GPU, **gpu}),))
        )

    def report(self, alive: list[Lease] | None = None, *, wait: float = 0.0) -> Assignment:
        said = AgentReport(
            boot_id=self.boot,
            target_seq=self.done,
            leases=tuple(LiveLease(lease.id, lease.epoch) for lease in alive or []),
            wait=wait,
            incarnation=self.counts_by,
        )
        assignment = self.client.report_agent(self.name, said)
        self.done, self.counts_by = assignment.target_seq, assignment.incarnation
        return assignment

    def carry_out(self) -> None:
        """Learn the newest set and confirm it."""
        self.report()
        self.report()


def reserve(client: PoolClient, path: str = "a.ipynb", size: str = "0.02 V100", **fields: Any) -> Lease:
    key = fields.pop("key", f"{path} {size}")
    return client.ask(size, key=key, slot=Slot("", path), holder=fields.pop("holder", "kernel-1"), **fields)


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error, after a check of the one shape."""
    assert response.headers["content-type"].startswith("application/json")
    body = response.json()
    assert set(body) == {"error"}
    error = body["error"]
    assert set(error) == {"code", "message", "retry_after", "details"}
    assert error["message"]
    assert isinstance(error["details"], dict)
    assert response.status_code >= 400
    return dict(error)


def until(holds: Callable[[], bool], what: str, within: float = 60.0) -> None:
    """Look again and again, with pauses: whoever asks the controller each time has a pace to keep."""
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end, f"not within {within:g} s: {what}"
        time.sleep(0.02)


class Controller:
    """Base: how to ask it."""

    url: str

    def __init__(self) -> None:
        self._clients: list[PoolClient] = []

    def client(self, name: str, timeout: float = 60.0) -> PoolClient:
        client = PoolClient(self.url, token(name), timeout)
        self._clients.append(client)
        return client

    def close_clients(self) -> None:
        for client in self._clients:
            client.close()


class ThreadedController(Controller):
    """In this process, so that its logs can be seen."""

    def __init__(self, state: Path, **traits: Any) -> None:
        super().__init__()
        state.mkdir(mode=0o700, exist_ok=True)
        write_tokens(state / "tokens.json")
        self.app = PoolController(config=Config({"PoolController": configuration(state, **traits)}))
        self._started = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._run(),), daemon=True)

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self.app.serving() as self.url:
            self._started.set()
            await self._stop.wait()

    def long_polls(self) -> int:
        """How many requests wait for a bell now."""
        return len(self.app.bells)

    def stop(self) -> None:
        """Stop as at SIGTERM, with clients still there."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
        assert not self._thread.is_alive()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(60), "the controller did not start"
        return self

    def __exit__(self, *exception: object) -> None:
        self.close_clients()
        if self._thread.is_alive():
            self.stop()


class ControllerProcess(Controller):
    """In a process of its own, always on the same port, so that it can be killed and started again."""

    def __init__(
        self,
        state: Path,
        port: int | None = None,
        *,
        descriptors: tuple[int, int] | None = None,
        **traits: Any,
    ) -> None:
        """``port``: 0 for any, which is not kept; None for one that no outgoing connection is given while
        nobody listens there. ``descriptors``: its soft and its hard limit, this process's by default."""
        super().__init__()
        self._descriptors = descriptors
        port = port_for_server() if port is None else port
        self.state = state
        state.mkdir(mode=0o700, exist_ok=True)
        write_tokens(state / "tokens.json")
        self._config = state / "config.json"
        self._url_file = state / "url"
        values = configuration(state, port=port, url_file=str(self._url_file), **traits)
        self._config.write_text(json.dumps({"PoolController": values}))
        self.url = f"http://127.0.0.1:{port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._url_file.unlink(missing_ok=True)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("JUPYTERHUB_")}
        limited = ["prlimit", "--nofile={}:{}".format(*self._descriptors)] if self._descriptors else []
        with (self.state / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*limited, sys.executable, "-m", "gpu_kernels.pool", "--config", str(self._config)],
                stderr=log,
                stdout=log,
                env=environment,
            )
        end = time.monotonic() + 100
        while not self._url_file.exists():
            assert self.process.poll() is None, (self.state / "log").read_text()
            assert time.monotonic() < end, "the controller did not start"
            time.sleep(0.02)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close_clients()
        if self.process is not None and self.process.poll() is None:
            self.kill()
