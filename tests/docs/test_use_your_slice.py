"""The students' guide, cell by cell in a real kernel on a slice of a software GPU."""

from __future__ import annotations

import os
import threading

import nbclient
import nbformat
import pytest

from gpu_kernels import kernelspecs
from gpu_kernels.client import Slot
from gpu_kernels.provisioner import attachments
from tests.cli.lab import Lab, wait_until
from tests.docs.documents import ROOT, code

GUIDE = ROOT / "docs" / "how-to" / "use-your-slice.md"
LIBRARY = ROOT / "remoting" / "lib" / "client" / "libcuda.so.1"
ADD = """
import numpy as np
from numba import cuda

@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]

def total():
    a = np.arange(1000, dtype=np.float32)
    out = np.empty_like(a)
    add[4, 256](a, a, out)
    return float(out.sum()), cuda.current_context().get_memory_info().total // 2**20
"""
pytestmark = [
    pytest.mark.native,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not LIBRARY.exists(), reason="no native build"),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    # What a test takes itself is renewed by nobody.
    made = Lab(tmp_path_factory.mktemp("lab"), 300.0, worker="gpu-worker")
    made.admin.set_limit("ml101", {"V100": 500})
    yield made
    made.close()


@pytest.fixture
def run(lab, tmp_path, monkeypatch):
    """Runs cells in a kernel on 0.02 V100, as JupyterLab's server would; gives what each showed."""
    kernelspecs.install(prefix=tmp_path, sizes=["0.02 V100"])
    for name in [name for name in os.environ if name.startswith(("GPU_KERNELS_", "JUPYTERHUB_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GPU_KERNELS_CONTROLLER", lab.url)
    monkeypatch.setenv("GPU_KERNELS_TOKEN", "ada-token")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))
    monkeypatch.setenv("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")

    def execute(cells: list[str], *, allow_errors: bool = False) -> list[str]:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        # ipykernel shows what a library writes to standard output, but not where it thinks it is tested.
        env = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        client = nbclient.NotebookClient(
            notebook, kernel_name="python3-gpu-0.02-v100", timeout=100, allow_errors=allow_errors
        )
        client.execute(env=env)
        return ["\n".join(map(_text, cell.outputs)) for cell in notebook.cells]

    return execute


@pytest.fixture
def later():
    """Runs something in another thread, and waits for its end after the test."""
    threads = []

    def start(action) -> None:
        threads.append(thread := threading.Thread(target=action))
        thread.start()

    yield start
    for thread in threads:
        thread.join(60)


def _text(output: nbformat.NotebookNode) -> str:
    return output.get("text") or output.get("evalue") or output.get("data", {}).get("text/plain", "")


def test_each_command_of_the_guide_does_what_its_text_says(lab, run):
    status, smi, wait, wait_a_minute, release, attach, cell, usage = run(code(GUIDE, "python"))
    assert status.startswith("A slice of 0.02 V100")
    assert "A slice of a GPU: 0.02 V100, course ml101" in smi
    assert wait.startswith("A slice of 0.02 V100")
    assert wait_a_minute.startswith("A slice of 0.02 V100")
    assert release.startswith("The slice of 0.02 V100 was given back")
    assert "A slice of 0.05 V100" in attach
    assert "in this cell:" in cell
    assert usage.startswith("You used 0")
    wait_until(lab.nothing_in_use)


def test_the_first_cuda_call_shows_the_line_and_goes_on_by_itself_when_the_slice_comes(lab, run, later):
    blocker = lab.ada.ask("0.49 V100", key="b", slot=Slot("", "b"), holder="blocker")

    def is_shown_the_line() -> bool:
        asking = [each.asking for each in attachments.all()]
        return any(each is not None and each.holder.explain for each in asking)

    def give_when_the_call_waits() -> None:
        wait_until(is_shown_the_line, within=100)
        lab.ada.release(blocker.id, "blocker")

    later(give_when_the_call_waits)
    (said,) = run([ADD + "print(total())"])
    assert "waiting for a GPU (0.02 V100): number 1 in the line" in said
    assert "your GPU (0.02 V100) is there" in said
    assert "(999000.0, 655)" in said
    wait_until(lab.nothing_in_use)


def test_numba_goes_on_after_each_change_with_its_compiled_kernels_and_the_programs_variables(lab, run):
    said = run(
        [
            ADD + "kept = 7\nprint(total())",
            "%gpu attach 0.05",
            "print(total(), kept)",
            "%%gpu 0.1\nprint(total())",
            "print(total())",
            "%gpu release",
            "print(total())",
        ]
    )
    assert "(999000.0, 655)" in said[0]
    assert said[2].strip() == "(999000.0, 1638) 7"
    assert "(999000.0, 3276)" in said[3]
    assert "(999000.0, 1638)" in said[4]
    assert "(999000.0, 1638)" in said[6]
    wait_until(lab.nothing_in_use)


def test_a_cell_after_a_fault_begins_anew_and_its_gpu_works(lab, run):
    wild = """
@cuda.jit
def wild(out):
    out[cuda.grid(1) + 10**9] = 1.0

wild[1, 1](cuda.to_device(np.zeros(4)))
cuda.synchronize()
"""
    first, fault, after = run([ADD + "print(total())", wild, "print(total())"], allow_errors=True)
    assert "(999000.0, 655)" in first
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in fault
    assert "starts over" in after, after
    assert "(999000.0, 655)" in after
    wait_until(lab.nothing_in_use)


def test_a_slice_that_is_taken_back_is_told_and_the_next_cell_has_another(lab, run, later, tmp_path):
    """The cell waits until its slice was taken back, by a file that appears."""
    taken = tmp_path / "taken"

    def take_back() -> None:
        wait_until(lambda: (tmp_path / "computed").exists(), within=100)
        for lease in lab.leases():
            lab.admin.revoke(lease.id, "the class begins")
        taken.touch()

    later(take_back)
    waits = f"""
import pathlib, time
print(total())
pathlib.Path({str(tmp_path / "computed")!r}).touch()
while True:
    total()
"""
    _, lost, after = run([ADD, waits, "print(total())"], allow_errors=True)
    assert "your GPU has gone" in lost, lost
    assert "the class begins" in lost, lost
    assert "starts over" in after, after
    assert "(999000.0, 655)" in after
    wait_until(lab.nothing_in_use)
