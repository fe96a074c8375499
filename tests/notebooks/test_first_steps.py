"""The first-steps notebook: as it is stored, and run straight on a software GPU."""

from __future__ import annotations

import os
from pathlib import Path

import nbclient
import nbformat
import pytest

from gpu_kernels import kernelspecs
from gpu_kernels.kernel_ports import hold_ports
from gpu_kernels.remoting.environment import software_environment

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "first_steps.ipynb"
MEMORY_MIB = 655
CHECKED = (
    "1,000,000 sums, each equal to NumPy's",
    "the largest difference from NumPy is",
    "the sum of 1,000,000 numbers",
    "500,000 values in 256 bins, each count equal to NumPy's",
    "pi is about 3.1",
    "1310 MiB are too many",
    "and the kernel still works",
)


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def text_of(cell: nbformat.NotebookNode) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


@pytest.fixture
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


def test_it_is_valid_and_stored_without_outputs(notebook):
    nbformat.validate(notebook)
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code_cells(notebook))


def test_it_opens_with_the_smallest_kernel_on_offer(notebook):
    smallest = kernelspecs.DEFAULT_SIZES[0]
    assert notebook.metadata.kernelspec.name == kernelspecs.spec_name(smallest)
    assert notebook.metadata.kernelspec.display_name == f"Python 3 ({smallest})"


def test_only_the_last_cell_is_meant_to_fail(notebook):
    tags = ["raises-exception" in cell.metadata.get("tags", []) for cell in code_cells(notebook)]
    assert tags == [False] * (len(tags) - 1) + [True]


@pytest.mark.native
@pytest.mark.timeout(300)
def test_every_cell_does_on_a_software_gpu_what_its_text_says(notebook, tmp_path, monkeypatch):
    kernelspecs.install(prefix=tmp_path, sizes=[])
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))
    environ = software_environment(os.environ, memory_mib=MEMORY_MIB)
    hold_ports()
    client = nbclient.NotebookClient(notebook, kernel_name=kernelspecs.PLAIN, timeout=100)
    client.execute(env=environ, cwd=str(tmp_path))
    *steps, last = code_cells(notebook)
    printed = "".join(map(text_of, steps))
    assert f"{MEMORY_MIB} MiB" in printed
    assert [line for line in CHECKED if line not in printed] == []
    (error,) = [output for output in last.outputs if output.output_type == "error"]
    assert "ILLEGAL_ADDRESS" in error.evalue
