"""PyTorch's CUDA build: what it does without kernels of its own, straight and forwarded.

Its kernels are machine code, which needs a real GPU. PyTorch is not among the project's requirements: the
tests run where it is installed, or where GPU_KERNELS_TORCH_PYTHON names a Python that has it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .places import PLACES

PROGRAM = Path(__file__).parent / "pytorch" / "without_kernels.py"
PRINTED = """\
name True capability (7, 5)
memory True
copies True cuda:0 99999.0
zeros 0.0
a view of a table True
one number 4711.0
pinned True False
streams True True True True
allocated 1048576 True
given back True 0
out of memory True
and on [1.0, 1.0, 1.0, 1.0, 1.0]
"""


@pytest.fixture(scope="module")
def python() -> str:
    chosen = os.environ.get("GPU_KERNELS_TORCH_PYTHON", sys.executable)
    asked = "import torch; assert torch.version.cuda"
    if subprocess.run([chosen, "-c", asked], capture_output=True).returncode != 0:
        pytest.skip("PyTorch's CUDA build is not here (GPU_KERNELS_TORCH_PYTHON names a Python that has it)")
    return chosen


@pytest.mark.timeout(300)
@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_pytorch_copies_waits_and_counts_memory(python: str, place: str) -> None:
    with PLACES[place](1) as process, process() as environment:
        environment.pop("PYTHONPATH", None)
        done = subprocess.run([python, PROGRAM], env=environment, capture_output=True, text=True, timeout=240)
    assert done.stdout == PRINTED, done.stderr
    assert done.returncode == 0
