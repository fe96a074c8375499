"""What appears under a notebook's cell: the kernel's printf, its faults, and what the checks find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel

from gpu_kernels.kernel_ports import hold_ports
from tests.native_build import Build, build

from .minimal_agent import MinimalAgent
from .test_programs import SoftwareClient

pytestmark = pytest.mark.timeout(900)
pytest.importorskip("numba.cuda")
pytest.importorskip("ipykernel")

HEAD = "import numpy as np\nfrom numba import cuda, float32\n"
HELLO = """
@cuda.jit
def hello():
    print("hello from thread", cuda.threadIdx.x)

hello[1, 3]()
cuda.synchronize()
"""
RACY = """
@cuda.jit(lineinfo=True)
def mirror(x, out):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    out[t] = tile[63 - t]

mirror[1, 64](cuda.to_device(np.ones(64, np.float32)), cuda.to_device(np.zeros(64, np.float32)))
cuda.synchronize()
"""
WILD = """
@cuda.jit(lineinfo=True)
def wild(x):
    x[cuda.grid(1) + (1 << 40)] = 1

wild[1, 32](cuda.to_device(np.zeros(10)))
cuda.synchronize()
"""


class Notebook:
    def __init__(self, environment: dict[str, str]) -> None:
        hold_ports()
        self._manager, self._client = start_new_kernel(startup_timeout=120, env=environment)

    def run(self, cell: str, until: str) -> dict[str, str]:
        """The cell's standard output and error, and the name of the exception that ended it.

        What comes through the process's descriptors may be shown after the cell has ended: reads on ``until``
        that is there.
        """
        shown = {"stdout": "", "stderr": "", "error": ""}

        def take(message: dict[str, dict[str, str]]) -> None:
            content = message["content"]
            if "text" in content:
                shown[content["name"]] += content["text"]
            shown["error"] += content.get("ename", "")

        self._client.execute_interactive(cell, timeout=300, output_hook=take)
        while until not in shown["stdout"] + shown["stderr"]:
            take(self._client.get_iopub_msg(timeout=60))
        return shown

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


@pytest.fixture
def notebook(tmp_path: Path, native: Build) -> Iterator[Notebook]:
    build(native.folder, "softgpu", "nvjitlink_12", "nvjitlink_13")
    driver = native.folder / "softgpu" / "libcuda.so.1"
    settings = {"GPU_KERNELS_SOFTGPU_MEMORY_MIB": "64", "GPU_KERNELS_SOFTGPU_LOG": "stderr"}
    with MinimalAgent(tmp_path, native.worker, driver, environment=settings) as agent:
        environment = SoftwareClient(agent, native).environment_of(GPU_KERNELS_SOFTGPU_CHECK="races,init")
        # ipykernel looks for this, and leaves the descriptors alone where it is.
        environment.pop("PYTEST_CURRENT_TEST", None)
        opened = Notebook(environment)
        yield opened
        opened.close()


def test_a_cell_shows_what_its_kernels_print_and_what_is_wrong_with_them(notebook: Notebook) -> None:
    hello = notebook.run(HEAD + HELLO, until="thread 2\n")
    assert hello["stdout"] == "".join(f"hello from thread {i}\n" for i in range(3))
    assert hello["stderr"] == ""
    racy = notebook.run(RACY, until=", met ")
    assert "gpu-kernels: race: kernel" in racy["stderr"]
    assert "cuda.syncthreads()" in racy["stderr"]
    assert racy["error"] == ""
    wild = notebook.run(WILD, until="Restart the kernel")
    assert "write of 8 bytes out of bounds" in wild["stderr"]
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in wild["stderr"]
    assert wild["error"] == "CudaAPIError"
