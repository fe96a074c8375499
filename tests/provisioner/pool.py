"""A real pool controller for the provisioner's tests, with an agent that has one V100 and serves nobody.

The agent speaks as a real one does: it registers, and confirms every end at once, since no worker ever lives.
Nothing of the controller is faked.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from gpu_kernels.client import Lease, PoolClient
from gpu_kernels.errors import PoolError
from gpu_kernels.provisioner.attachment import Attachment, View
from gpu_kernels.resources.agents import AgentReport, OfferedGpu, Registration

COURSE = "ml101"
TOKENS = {
    "student-token": {"name": "ada", "groups": [COURSE], "scopes": ["custom:gpu:use"]},
    "admin-token": {"name": "root", "scopes": ["custom:gpu:admin:pool", "custom:gpu:admin:quota"]},
    "agent-token": {"name": "server-1", "scopes": ["custom:gpu:agent!server=server-1"]},
}
GPU = OfferedGpu("GPU-test-1", 0, "V100", "software", "V100 (software)", 32768, 32768)
FINAL = ("released", "expired", "revoked", "freed")


class Pool:
    """A controller's process and the agent's thread; ``student`` and ``admin`` are clients."""

    def __init__(
        self, folder: Path, lease_ttl: float = 60.0, swap_rest: float = 0.001, port: int = 0
    ) -> None:
        """``swap_rest`` is none, or one test's swap would be counted against the next. ``port``: one that is
        free again for a controller that comes back, by default any.
        """
        self.folder = folder
        self._process: subprocess.Popen | None = None
        tokens = {hashlib.sha256(token.encode()).hexdigest(): who for token, who in TOKENS.items()}
        (folder / "tokens.json").write_text(json.dumps(tokens))
        (folder / "tokens.json").chmod(0o600)
        config = {
            "courses": {COURSE: {"V100": {"thousandths": 1000}}},
            "lease_ttl": lease_ttl,
            "swap_rest": swap_rest,
            "max_requests": 1e6,  # one student asks for all tests
            "sweep_interval": min(1.0, lease_ttl / 10),
        }
        (folder / "config.json").write_text(json.dumps({"PoolController": config}))
        self.start_controller(port)
        self.student = PoolClient(self.url, "student-token")
        self.admin = PoolClient(self.url, "admin-token")
        self._stopping = threading.Event()
        registered = threading.Event()
        self._agent = threading.Thread(target=self._serve_nobody, args=(registered,), daemon=True)
        self._agent.start()
        assert registered.wait(60)

    def start_controller(self, port: int = 0) -> None:
        url_file = self.folder / "url"
        url_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "gpu_kernels.pool", f"--port={port}", f"--state-dir={self.folder}"]
        command += [f"--config={self.folder / 'config.json'}", f"--PoolController.url_file={url_file}"]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTERHUB")}
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environ)
        wait_until(lambda: url_file.exists() or self._process.poll() is not None)
        assert self._process.poll() is None, (self.folder / "log").read_text()
        self.url = url_file.read_text()

    def stop_controller(self) -> None:
        self._process.terminate()
        self._process.wait(60)

    def close(self) -> None:
        self._stopping.set()
        self.stop_controller()
        self._agent.join(60)

    def _serve_nobody(self, registered: threading.Event) -> None:
        client = PoolClient(self.url, "agent-token")
        done, counts_by = 0, ""
        while not self._stopping.is_set():
            try:
                if not registered.is_set():
                    said = Registration("boot-1", "tcp://127.0.0.1:1024", "1", (GPU,))
                    client.register_agent("server-1", said)
                    registered.set()
                answer = client.report_agent(
                    "server-1",
                    AgentReport(
                        boot_id="boot-1", target_seq=done, leases=(), wait=5.0, incarnation=counts_by
                    ),
                )
                done, counts_by = answer.target_seq, answer.incarnation
            except PoolError:
                self._stopping.wait(0.05)

    def leases(self) -> list[Lease]:
        """The student's leases that hold a slice or wait for one."""
        return [lease for lease in self.student.list() if lease.state not in FINAL]

    def in_force(self) -> list[Lease]:
        return [lease for lease in self.leases() if lease.in_force]

    def used_mib(self) -> int:
        return sum(gpu.used_mib for gpu in self.student.pool().gpus)

    def limit(self, thousandths: int) -> None:
        self.admin.set_limit(COURSE, {"V100": thousandths})

    def empty(self) -> None:
        """Take everything back, wait until it counts no longer, and restore the limit."""
        for lease in self.leases():
            self.admin.revoke(lease.id, "the test is over")
        wait_until(lambda: self.leases() == [])
        self.limit(1000)


def settled(attachment: Attachment, seconds: float = 60.0) -> View:
    """How it stands once nothing is asked for any longer, or after so long."""
    return asyncio.run(attachment.settled(seconds))


def wait_until(condition, seconds: float = 60.0):
    """The first true answer of ``condition``; a test that never gets one fails here."""
    end = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < end, "what the test waits for did not happen"
        time.sleep(0.01)
    return answer
