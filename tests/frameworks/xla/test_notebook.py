"""JAX and Keras in a notebook on a slice, cell by cell in a real kernel: imported before the slice is there,
with another slice before and after its first use, and after a kernel has gone wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

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

from .conftest import python_with

pytestmark = [pytest.mark.slow, pytest.mark.native, pytest.mark.timeout(1800)]


@dataclass(frozen=True)
class Cells:
    name: str
    imports: str
    adds: str
    """Prints ``ADDED`` where it is computed on the slice."""
    computes_on: str
    """Leaves the GPU work to do, and does not wait for it."""
    on_the_cpu: str


JAX = Cells(
    "JAX",
    "import jax",
    "on = jax.numpy.ones(3) + 1; print(on.device.platform, on.tolist())",
    "big = jax.numpy.ones((400, 400))\nfor _ in range(5): big = big @ big / 400",
    'with jax.default_device(jax.devices("cpu")[0]): print((jax.numpy.ones(3) + 1).tolist())',
)
KERAS = Cells(
    "TensorFlow",
    "import keras, tensorflow as tf",
    "on = tf.ones(3) + 1; print(on.device[-5:-2].lower(), on.numpy().tolist())",
    "big = tf.ones((400, 400))\nfor _ in range(5): big = big @ big / 400",
    'with tf.device("/CPU:0"): print((tf.ones(3) + 1).numpy().tolist())',
)
ADDED = "gpu [2.0, 2.0, 2.0]"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab_with_a_gpu(tmp_path_factory.mktemp("lab")) as made:
        yield made


@pytest.fixture(params=[JAX, KERAS], ids=lambda cells: cells.name)
def cells(request: pytest.FixtureRequest) -> Cells:
    return request.param


@pytest.fixture
def run(lab: Lab, cells: Cells, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(lab, python_with(cells.name.lower()), tmp_path, monkeypatch)


def test_imported_before_the_slice_is_there_it_waits_and_after_a_fault_a_line_says_what_to_restart(
    lab: Lab, cells: Cells, run: Run
) -> None:
    with full_until_a_cell_waits(lab):
        imported, first, _, after, cpu = run(
            [
                cells.imports,
                cells.adds,
                GOES_WRONG,
                cells.adds,
                cells.on_the_cpu,
            ],
            allow_errors=True,
        )
    assert "waiting" not in imported
    assert "waiting for a GPU (0.02 V100): number 1 in the line" in first
    assert ADDED in first
    assert f"{cells.name} {CANNOT_GO_ON}" in after
    assert "CUDA_ERROR_" in after
    assert "[2.0, 2.0, 2.0]" in cpu
    wait_until(lab.nothing_in_use)


def test_a_refusal_and_an_interrupted_wait_leave_the_next_use_to_ask_again(
    lab: Lab, cells: Cells, run: Run, tmp_path: Path
) -> None:
    """XLA itself asks once in a process, and the framework would stay on the CPU without a word."""
    shown = try_refused_and_interrupted(lab, run, tmp_path, cells.imports, cells.adds)
    assert_asked_again_each_time(*shown, added=ADDED)
    assert "there is no GPU for this" in shown[0]
    wait_until(lab.nothing_in_use)


def test_another_slice_before_the_first_use_serves_and_after_it_a_line_says_what_to_restart(
    lab: Lab, cells: Cells, run: Run
) -> None:
    """What the GPU still computes then ends nothing but itself."""
    _, release, larger, first, _, smaller, after, cpu = run(
        [
            cells.imports,
            "%gpu release",
            "%gpu attach 0.04",
            cells.adds,
            cells.computes_on,
            "%gpu attach 0.02",
            cells.adds,
            cells.on_the_cpu,
        ],
        allow_errors=True,
    )
    assert CANNOT_GO_ON not in release + larger
    assert ADDED in first
    assert f"{cells.name} {CANNOT_GO_ON}" in smaller
    assert "CUDA_ERROR_" in after
    assert "[2.0, 2.0, 2.0]" in cpu
    wait_until(lab.nothing_in_use)
