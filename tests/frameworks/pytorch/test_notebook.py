"""PyTorch in a notebook on a slice, cell by cell in a real kernel: imported before the slice is there, and
after it has gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_kernels.pytorch.releases import WHAT_RUNS_WHERE
from tests.cli.lab import Lab, wait_until
from tests.frameworks.notebook import (
    CANNOT_GO_ON,
    GOES_WRONG,
    Run,
    assert_asked_again_each_time,
    full_until_a_cell_waits,
    lab_with_a_gpu,
    runner,
    try_refused_and_interrupted,
)

pytestmark = [pytest.mark.slow, pytest.mark.native, pytest.mark.timeout(1800)]

ADDS = 'print((torch.ones(3, device="cuda") + 1).tolist())'
ADDED = "[2.0, 2.0, 2.0]"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab_with_a_gpu(tmp_path_factory.mktemp("lab")) as made:
        yield made


@pytest.fixture
def run(lab: Lab, pytorch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(lab, pytorch, tmp_path, monkeypatch)


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
    with full_until_a_cell_waits(lab):
        _, first, cpu = run(["import torch", ADDS, "print(torch.cuda.mem_get_info()[1] // 2**20)"])
    assert "waiting for a GPU (0.02 V100): number 1 in the line" in first
    assert ADDED in first
    assert cpu.strip() == "655"
    _, release, again = run(["import torch", "%gpu release", ADDS])
    assert CANNOT_GO_ON not in release
    assert ADDED in again
    wait_until(lab.nothing_in_use)


def test_other_threads_run_while_it_waits_and_a_refusal_or_interrupt_leaves_the_next_use_to_ask_again(
    lab: Lab, run: Run, tmp_path: Path
) -> None:
    """It is a thread of the kernel's own that interrupts the wait."""
    shown = try_refused_and_interrupted(lab, run, tmp_path, "import torch", ADDS)
    assert_asked_again_each_time(*shown, added=ADDED)
    wait_until(lab.nothing_in_use)


def test_after_a_fault_the_next_cell_says_what_to_restart(lab: Lab, run: Run) -> None:
    first, fault, after = run(
        ["import torch\n" + ADDS, GOES_WRONG + "torch.cuda.synchronize()", ADDS], allow_errors=True
    )
    assert ADDED in first
    assert "illegal memory access" in fault
    assert f"PyTorch {CANNOT_GO_ON}" in after
    wait_until(lab.nothing_in_use)
