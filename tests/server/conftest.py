"""A real Jupyter server with the extension, on a real pool."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from gpu_kernels.spawner.ports import free_port
from tests.provisioner.conftest import PROCESS
from tests.provisioner.pool import COURSE, Pool, wait_until

ROOT = Path(__file__).parents[2]
DATA_FILE = ROOT / "gpu_kernels" / "server" / "gpu-kernels.json"
TOKEN = "server-token"
SIZES = ("0.02 V100", "0.1 V100")


class Server:
    """A Jupyter server's process, whose kernels answer nothing; ``http`` is a program with its token."""

    def __init__(self, folder: Path, pool: Pool, configuration: str = "") -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        enabled = folder / "config" / "jupyter_server_config.d"
        enabled.mkdir(parents=True)
        shutil.copy(DATA_FILE, enabled)
        (folder / "config" / "jupyter_server_config.py").write_text(
            f"""
c.ServerApp.port = {port}
c.ServerApp.port_retries = 0
c.ServerApp.open_browser = False
c.ServerApp.allow_root = True
c.ServerApp.root_dir = {str(folder)!r}
c.IdentityProvider.token = {TOKEN!r}
c.ServerApp.kernel_manager_class = "gpu_kernels.kernels.GPUMappingKernelManager"
{configuration}
"""
        )
        for size in SIZES:
            self._write_spec(size)
        mine = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY_"))}
        environ = mine | {
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "JUPYTER_NO_CONFIG": "",
            "GPU_KERNELS_CONTROLLER": pool.url,
            "GPU_KERNELS_TOKEN": "student-token",
            "GPU_KERNELS_COURSE": COURSE,
        }
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jupyter_server"], env=environ, stdout=log, stderr=log
            )
        self.http = self.visitor(headers={"Authorization": f"token {TOKEN}"})
        wait_until(self._answers, 100)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.log
        try:
            return self.http.get("/api/status").is_success
        except httpx.TransportError:
            return False

    def _write_spec(self, size: str) -> None:
        folder = self.folder / "data" / "kernels" / size.split()[0]
        folder.mkdir(parents=True)
        config = {"size": size, "start": "lazy", "first_wait_s": 0, "watch_s": 0}
        spec = {
            "argv": PROCESS,
            "display_name": f"Test ({size})",
            "language": "python",
            "metadata": {"kernel_provisioner": {"provisioner_name": "gpu-slice", "config": config}},
        }
        (folder / "kernel.json").write_text(json.dumps(spec))

    def visitor(self, **options) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60, trust_env=False, **options)

    def start_kernel(self, name: str = "0.02", state: str = "attached") -> str:
        """A kernel whose slice stands like this by now; a start itself waits for none."""
        kernel = self.http.post("/api/kernels", json={"name": name}).raise_for_status().json()["id"]
        wait_until(lambda: self.told(kernel)["state"] == state)
        return kernel

    def all_are(self, state: str) -> bool:
        """Whether the slices of all its kernels stand like this."""
        return {told["state"] for told in self.told()["kernels"]} == {state}

    def told(self, kernel: str = "") -> dict:
        address = f"/gpu-lab/api/kernels/{kernel}" if kernel else "/gpu-lab/api/kernels"
        return self.http.get(address).raise_for_status().json()

    def change(self, kernel: str, do: str, **body) -> httpx.Response:
        return self.http.post(f"/gpu-lab/api/kernels/{kernel}/{do}", json=body)

    def end_kernels(self) -> None:
        for kernel in self.http.get("/api/kernels").json():
            self.http.delete(f"/api/kernels/{kernel['id']}")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        self.http.close()


@pytest.fixture(scope="session")
def pool(tmp_path_factory):
    pool = Pool(tmp_path_factory.mktemp("pool"))
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def running_server(tmp_path_factory, pool):
    server = Server(tmp_path_factory.mktemp("server"), pool)
    yield server
    server.close()


@pytest.fixture
def server(running_server, pool):
    yield running_server
    running_server.end_kernels()
    pool.empty()
