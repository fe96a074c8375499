"""PyTorch in a notebook on a slice, cell by cell in a real kernel: imported before the slice is there, and
after it has gone.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import nbclient
import nbformat
import pytest

from gpu_kernels import kernelspecs
from gpu_kernels.client import Slot
from gpu_kernels.provisioner import attachments
from gpu_kernels.pytorch.releases import WHAT_RUNS_WHERE
from tests.cli.lab import Lab, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.native, pytest.mark.timeout(1800)]

SPEC = "python3-gpu-0.02-v100"
ADDS = 'print((torch.ones(3, device="cuda") + 1).tolist())'
ADDED = "[2.0, 2.0, 2.0]"
CANNOT_GO_ON = "cannot go on with another slice: restart the kernel before you use it again"

Run = Callable[..., list[str]]
"""Runs cells in one kernel, and gives what each showed; a cell may fail with ``allow_errors``."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("lab"), 300.0, worker="gpu-worker")
    made.admin.set_limit("ml101", {"V100": 500})
    yield made
    made.close()


@pytest.fixture
def run(lab: Lab, pytorch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    kernelspecs.install(prefix=tmp_path, sizes=["0.02 V100"])
    spec = tmp_path / "share" / "jupyter" / "kernels" / SPEC / "kernel.json"
    described = json.loads(spec.read_text(encoding="utf-8"))
    described["argv"][0] = pytorch
    spec.write_text(json.dumps(described), encoding="utf-8")
    for name in [name for name in os.environ if name.startswith(("GPU_KERNELS_", "JUPYTERHUB_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GPU_KERNELS_CONTROLLER", lab.url)
    monkeypatch.setenv("GPU_KERNELS_TOKEN", "ada-token")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))

    def execute(cells: list[str], *, allow_errors: bool = False) -> list[str]:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        # ipykernel shows what a library writes to standard output, but not where it thinks it is tested.
        env = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        client = nbclient.NotebookClient(notebook, kernel_name=SPEC, timeout=600, allow_errors=allow_errors)
        client.execute(env=env)
        return ["\n".join(map(shown, cell.outputs)) for cell in notebook.cells]

    return execute


def shown(output: nbformat.NotebookNode) -> str:
    text = output.get("text") or output.get("evalue") or output.get("data", {}).get("text/plain", "")
    return re.sub(r"\x1b\[[0-9;]*m", "", str(text))


def test_a_student_is_told_where_operators_run_and_what_to_restart_after_a_release(
    lab: Lab, run: Run
) -> None:
    first, report, release, after, cpu = run(
        ["import torch\n" + ADDS, "%gpu", "%gpu release", ADDS, "print((torch.ones(3) + 1).tolist())"],
        allow_errors=True,
    )
    assert ADDED in first
    assert report.splitlines()[1] == WHAT_RUNS_WHERE
    assert f"PyTorch {CANNOT_GO_ON}" in release
    assert f"PyTorch {CANNOT_GO_ON}" in after
    assert ADDED in cpu
    wait_until(lab.nothing_in_use)


def test_pytorch_that_was_imported_before_the_slice_was_there_waits_for_it(lab: Lab, run: Run) -> None:
    """And on a slice that came after another was given back unused."""
    blocker = lab.ada.ask("0.49 V100", key="b", slot=Slot("", "b"), holder="blocker")

    def give_when_the_cell_waits() -> None:
        waits = lambda: any(each._asking and each._asking.holder.explain for each in attachments.all())  # noqa: E731
        wait_until(waits, within=300)
        lab.ada.release(blocker.id, "blocker")

    later = threading.Thread(target=give_when_the_cell_waits)
    later.start()
    _, first, cpu = run(["import torch", ADDS, "print(torch.cuda.mem_get_info()[1] // 2**20)"])
    later.join()
    assert "waiting for a GPU (0.02 V100): number 1 in the line" in first
    assert ADDED in first
    assert cpu.strip() == "655"
    _, release, again = run(["import torch", "%gpu release", ADDS])
    assert CANNOT_GO_ON not in release
    assert ADDED in again
    wait_until(lab.nothing_in_use)


def test_after_a_fault_the_next_cell_says_what_to_restart(lab: Lab, run: Run) -> None:
    wild = """
import ctypes
kernel = '''.version 8.0
.target sm_70
.address_size 64
.visible .entry wild() {
    .reg .b32 %r<2>; .reg .b64 %d<2>;
    mov.u64 %d1, 64; mov.u32 %r1, 1; st.global.u32 [%d1], %r1; ret;
}'''
driver, module, function = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuModuleLoadData(ctypes.byref(module), kernel.encode() + b"\\0") == 0
assert driver.cuModuleGetFunction(ctypes.byref(function), module, b"wild") == 0
assert driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
torch.cuda.synchronize()
"""
    first, fault, after = run(["import torch\n" + ADDS, wild, ADDS], allow_errors=True)
    assert ADDED in first
    assert "illegal memory access" in fault
    assert f"PyTorch {CANNOT_GO_ON}" in after
    wait_until(lab.nothing_in_use)
