"""PyTorch on the software GPU, straight and forwarded, with the Python that ``make frameworks`` makes."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest

from gpu_kernels.pytorch import WHAT_RUNS_WHERE
from remoting.environment import without_gpu
from tests.native_build import ROOT

from . import places

pytestmark = [pytest.mark.slow, pytest.mark.native, pytest.mark.timeout(1800)]

MIXED_PRECISION = 1e-3
"""The CPU's autocast has other lists of operators than the device's, so losses agree as 16 bits do."""
BEHAVES = """\
name True
a notice of ours []
small numbers [0.0, 2.0, 4.0] True
a seed repeats True
another generator repeats True
a state repeats True
two draws differ True
the processor's generator is untouched True
recomputed for the gradient True
out grew [6] cuda:0 True
a view is written [[0.0, 7.0], [0.0, 7.0]]
memory counted True True
out of memory OutOfMemoryError True
and on 3.0
capture RuntimeError cannot be captured in a CUDA graph
no kernel NotImplementedError is not there on a software GPU
tensors on two devices are refused:
 add cuda:0 and cpu!
 add in place on the CPU cuda:0 and cpu!
 out on the CPU cuda:0 and cpu!
 a model's input cuda:0 and cpu!
 two GPUs cuda:0 and cuda:1!
tensors on two devices are taken: 10 of 10
statistics [4.5, 4.5] [6.0, 6.0]
saved and loaded True
pinned True
workers of a loader [0, 1, 4, 9, 16, 25]
device in a forked child RuntimeError
complex True
sparse True
quantised True
"""
IN_ORDER = """\
kernel then operator True
operator then kernel True
an event between two streams True
a stream by itself True
a blocking stream's kernel then an operator True
a kernel then a blocking stream's operator True
a column beside another True
from another GPU True
to another GPU True
"""


@pytest.fixture(scope="module", params=["straight", "forwarded"])
def losses(request: pytest.FixtureRequest, pytorch: str) -> dict[str, tuple[float, float]]:
    done = places.run(pytorch, request.param, "training.py")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_training_ends_with_the_cpus_losses(losses: dict[str, tuple[float, float]]) -> None:
    full = {name: pair for name, pair in losses.items() if "autocast" not in name}
    assert len(full) == 16
    wrong = {
        name: pair for name, pair in full.items() if pair[1] != pytest.approx(pair[0], rel=1e-4, abs=1e-4)
    }
    assert not wrong


def test_mixed_precision_trains_as_well(losses: dict[str, tuple[float, float]]) -> None:
    mixed = {name: pair for name, pair in losses.items() if "autocast" in name}
    assert len(mixed) == 2
    wrong = {
        name: pair for name, pair in mixed.items() if pair[1] != pytest.approx(pair[0], abs=MIXED_PRECISION)
    }
    assert not wrong


def test_what_a_program_sees_is_a_devices(pytorch: str, place: str) -> None:
    done = places.run(pytorch, place, "behaviour.py")
    assert done.stdout == BEHAVES, done.stderr


def test_operators_and_own_kernels_keep_cudas_order(pytorch: str, place: str) -> None:
    done = places.run(pytorch, place, "order.py")
    assert done.stdout == IN_ORDER, done.stderr


def test_the_guides_program_learns(pytorch: str) -> None:
    guide = (ROOT / "docs" / "how-to" / "teach-with-pytorch.md").read_text(encoding="utf-8")
    program = re.search(r"```python\n(.*?)```", guide, re.S)
    assert program
    done = places.run(pytorch, "straight", "-c", program[1])
    assert done.stdout.startswith("learned: True on "), done.stderr


def test_gpu_says_first_where_operators_run(pytorch: str) -> None:
    asked = "import torch; from gpu_kernels.magics.report import look; print(look())"
    done = places.run(pytorch, "straight", "-c", asked)
    assert done.stdout.splitlines()[1] == WHAT_RUNS_WHERE, done.stderr


def test_pytorch_beside_no_gpu_is_left_alone(pytorch: str) -> None:
    asked = "import sys, torch; (torch.ones(3) + 1).sum(); print('gpu_kernels.pytorch.switch' in sys.modules)"
    done = subprocess.run([pytorch, "-c", asked], env=without_gpu(os.environ), capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")
