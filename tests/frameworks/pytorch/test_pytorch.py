"""PyTorch on the software GPU, straight and forwarded, with the Python that ``make frameworks`` makes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from gpu_kernels.pytorch.releases import WHAT_RUNS_WHERE
from gpu_kernels.remoting.environment import without_gpu
from tests.conformance.places import PLACES
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
HOLDS = """
import torch
held = torch.ones(300 << 18, device="cuda")
print("up", flush=True)
input()
"""
IS_FULL = """
import torch
own = torch.ones(200 << 18, device="cuda")
try:
    torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    print(error)
"""
AROUND = """\
profiled 1 True True
profiled 2 True True
time between events True
loaded to cuda:0 cpu cuda:1 cuda:1
most memory True True True
larger than the slice OutOfMemoryError
a fraction OutOfMemoryError
TorchScript True True
graphed RuntimeError cannot be captured in a CUDA graph
and on True False
pinned batches True
device in a loader's worker RuntimeError Cannot re-initialize CUDA
from spawned workers {'cuda:0'} [[0, 0], [1, 1], [2, 2], [3, 3]]
to another process RuntimeError Send tensor.cpu()
ten threads 10
ten streams 10
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

Losses = dict[str, tuple[list[float], list[float]]]
"""Of each step, on the CPU and on the device."""

OPENS_NVIDIAS = """
import ctypes
from pathlib import Path
import torch
x = torch.ones(3, device="cuda")
folder = Path(torch.__file__).parents[1] / "nvidia" / "cu13" / "lib"
runtime, blas = (ctypes.CDLL(str(folder / name)) for name in ("libcudart.so.13", "libcublas.so.13"))
handle = ctypes.c_void_p()
print(runtime.cudaMalloc(ctypes.byref(handle), ctypes.c_size_t(16)) != 0)
print(blas.cublasCreate_v2(ctypes.byref(handle)) != 0)
print((x @ x).item())
"""


@pytest.fixture(scope="module", params=places.ALL)
def losses(request: pytest.FixtureRequest, pytorch: str) -> Losses:
    done = places.run(pytorch, request.param, "training.py")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_step_of_training_has_the_cpus_loss(losses: Losses) -> None:
    full = {name: pair for name, pair in losses.items() if "autocast" not in name}
    assert len(full) == 18
    wrong = {
        name: pair for name, pair in full.items() if pair[1] != pytest.approx(pair[0], rel=1e-4, abs=1e-6)
    }
    assert not wrong


def test_mixed_precision_trains_as_well(losses: Losses) -> None:
    mixed = {name: pair for name, pair in losses.items() if "autocast" in name}
    assert len(mixed) == 4
    wrong = {
        name: pair for name, pair in mixed.items() if pair[1] != pytest.approx(pair[0], abs=MIXED_PRECISION)
    }
    assert not wrong


def test_what_a_program_sees_is_a_devices(pytorch: str, place: str) -> None:
    done = places.run(pytorch, place, "behaviour.py")
    assert done.stdout == BEHAVES, done.stderr


def test_what_is_around_operators_works(pytorch: str, place: str) -> None:
    """Profiler, events, files, memory's limits, TorchScript, graphs, loaders, threads."""
    done = places.run(pytorch, place, "around.py")
    assert done.stdout == AROUND, done.stderr


@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_kernels_that_pytorch_compiles_to_machine_code_run(pytorch: str, place: str) -> None:
    """NVRTC's, by the name under which PyTorch opens it."""
    done = places.run(pytorch, place, "own_kernels.py")
    said = ("a kernel True", "an operator True", "of halves torch.float16 True", "an error True")
    assert done.stdout.splitlines() == list(said), done.stderr


@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_compile_works_and_trains_in_the_modes_that_want_no_graphs(pytorch: str, place: str) -> None:
    done = places.run(pytorch, place, "compiled.py")
    assert done.returncode == 0, done.stderr
    dynamic, autotuned, graphs, *rest = done.stdout.splitlines()
    assert dynamic == "sizes that change agrees"
    assert autotuned == "max-autotune-no-cudagraphs agrees"
    assert "cannot be captured in a CUDA graph on a software GPU" in graphs
    assert 'mode="max-autotune-no-cudagraphs"' in graphs
    assert rest == ["and on True", "trains True", "learns True"]


def test_operators_and_own_kernels_keep_cudas_order(pytorch: str, place: str) -> None:
    done = places.run(pytorch, place, "order.py")
    assert done.stdout == IN_ORDER, done.stderr


ENDS_AFTER_A_PASS = """
import ctypes
libc = ctypes.CDLL("libc.so.6")
address = lambda of: ctypes.cast(of, ctypes.c_void_p)
libc.__cxa_atexit(address(libc.usleep), ctypes.c_void_p(500_000), None)  # what began first ends last
import torch
x = torch.ones(3, device="cuda", requires_grad=True)
(x * 2).sum().backward()
print(x.grad.tolist(), flush=True)
"""
RUNS_FOREVER = "while True: pass"


def test_a_program_that_ends_right_after_a_backward_pass_ends_well_beside_others(pytorch: str) -> None:
    """Of four runs two or so would be ended by SIGABRT: PyTorch's thread takes Python's lock too late."""
    others = [subprocess.Popen([sys.executable, "-c", RUNS_FOREVER]) for _ in range(3)]
    try:
        for _ in range(4):
            done = places.run(pytorch, "straight", "-c", ENDS_AFTER_A_PASS)
            assert (done.stdout, done.returncode) == ("[2.0, 2.0, 2.0]\n", 0), done.stderr
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_nvidias_own_libraries_beside_ours_are_a_line_each(pytorch: str, place: str) -> None:
    done = places.run(pytorch, place, "-c", OPENS_NVIDIAS)
    assert done.stdout == "True\nTrue\n3.0\n", done.stderr
    ours = [line for line in done.stderr.splitlines() if line.startswith("gpu-kernels: ")]
    assert len(ours) == 2
    assert "libcudart.so.13 is NVIDIA's own CUDA runtime" in ours[0]
    assert "libcublas.so.13 contains a copy of NVIDIA's CUDA runtime" in ours[1]


@pytest.mark.parametrize(
    ("variables", "first"),
    [({}, "FLASH_ATTENTION"), ({"TORCH_CUDNN_SDPA_DEPRIORITIZED": "0"}, "CUDNN_ATTENTION")],
    ids=["by itself", "as the user says"],
)
def test_attention_on_a_newer_gpu_goes_to_a_graph_of_cudnns_only_where_that_is_wanted(
    pytorch: str, variables: dict[str, str], first: str
) -> None:
    """It would be refused, and PyTorch tries no other way then."""
    done = places.run(pytorch, "straight", "attention.py", "9", GPU_KERNELS_PYTORCH="0", **variables)
    assert done.stdout.splitlines() == [first, "CUDNN_ATTENTION"], done.stderr


def test_the_guides_program_learns(pytorch: str) -> None:
    guide = (ROOT / "docs" / "how-to" / "teach-with-pytorch.md").read_text(encoding="utf-8")
    program = re.search(r"```python\n(.*?)```", guide, re.S)
    assert program
    done = places.run(pytorch, "straight", "-c", program[1])
    assert done.stdout.startswith("learned: True on "), done.stderr


@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_gpu_says_first_where_operators_run_before_and_after_pytorch_is_imported(
    pytorch: str, place: str
) -> None:
    looks = "print('look', look(), sep='\\n')"
    asked = f"from gpu_kernels.magics.report import look; {looks}; import torch; {looks}"
    done = places.run(pytorch, place, "-c", asked)
    before, after = done.stdout.split("look\n")[1:]
    assert before.splitlines()[1] == after.splitlines()[1] == WHAT_RUNS_WHERE, done.stderr


def test_the_text_of_a_full_slice_says_what_each_process_has(pytorch: str) -> None:
    with PLACES["forwarded"](1) as process, process() as environment:
        other = subprocess.Popen(
            [pytorch, "-c", HOLDS], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with other:
            assert other.stdout
            assert other.stdout.readline() == "up\n"
            done = subprocess.run([pytorch, "-c", IS_FULL], env=environment, capture_output=True, text=True)
            other.communicate("\n")
    said = (
        rf"Process {other.pid} has ([\d.]+) MiB memory in use\. .*this process has ([\d.]+) MiB memory in use"
    )
    found = re.search(said, done.stdout)
    assert found, done.stdout + done.stderr
    assert 300 <= float(found[1]) < 310  # its allocator takes whole blocks
    assert 200 <= float(found[2]) < 210


def test_pytorch_beside_no_gpu_is_left_alone(pytorch: str) -> None:
    asked = "import sys, torch; (torch.ones(3) + 1).sum(); print('gpu_kernels.pytorch.switch' in sys.modules)"
    done = subprocess.run([pytorch, "-c", asked], env=without_gpu(os.environ), capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")
