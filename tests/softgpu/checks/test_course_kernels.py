"""GPU_KERNELS_SOFTGPU_CHECK finds the bugs of a course's kernels, and nothing in their corrected forms."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native_build import built

KERNELS = Path(__file__).with_name("kernels.py")
# The first test may have to build the software GPU.
pytestmark = [pytest.mark.native, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def libraries() -> Path:
    pytest.importorskip("numba.cuda")
    for target in ("softgpu", "nvjitlink_12", "nvjitlink_13"):
        folder = built(target)
    return folder / "softgpu"


def run(
    libraries: Path, tmp_path: Path, program: Path, *arguments: str, checks: str = "all"
) -> tuple[str, list[str]]:
    """What it printed, and the findings."""
    log = tmp_path / "log"
    sanitizers = os.environ.get("GPU_KERNELS_TEST_PRELOAD", "").split()
    stand_ins = sorted(libraries.glob("nvjitlink-*/libnvJitLink.so.1?"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GPU_KERNELS_")}
    environment |= {
        "LD_LIBRARY_PATH": str(libraries),
        "LD_PRELOAD": ":".join([*sanitizers, *map(str, stand_ins)]),
        "GPU_KERNELS_SOFTGPU_MEMORY_MIB": "128",
        "GPU_KERNELS_SOFTGPU_LOG": str(log),
        "GPU_KERNELS_SOFTGPU_CHECK": checks,
        "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
    }
    done = subprocess.run(
        [sys.executable, program, *arguments], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines() if log.exists() else []
    return done.stdout, [line.removeprefix("gpu-kernels: ") for line in lines]


BARRIER = "put __syncthreads() (numba: cuda.syncthreads())"
WRONG = {
    "reduce_without_barrier": ("race: kernel", BARRIER),
    "stencil_without_barrier": ("race: kernel", BARRIER),
    "histogram_without_atomics": ("race: kernel", "use an atomic operation"),
    "tile_with_a_hole": ("uninitialised: kernel", "holds no value yet"),
    "barrier_in_a_branch": ("barrier divergence: kernel", "128 of 256 threads came to the barrier"),
    "shuffle_in_a_branch": ("shuffle divergence: kernel", "take the shuffle out of the branch"),
    "warps_without_syncwarp": ("race: kernel", "put __syncwarp() (numba: cuda.syncwarp())"),
    "never_written": ("uninitialised: kernel adds", "device memory at byte 0 of 1024, which holds no value"),
}
RIGHT = ("reduce", "stencil", "histogram", "barrier_for_all", "warps", "shuffles", "adds")


def test_the_bug_of_each_kernel_of_the_course_is_found(libraries, tmp_path):
    _, found = run(libraries, tmp_path, KERNELS, *WRONG)
    for name, (begins, says) in WRONG.items():
        kernel = "adds" if name == "never_written" else name
        lines = [line for line in found if f"kernel {kernel}," in line]
        assert any(line.startswith(begins) and says in line and "kernels.py:" in line for line in lines), name
        assert any(line.startswith(f"kernel {kernel}: ") and " finding" in line for line in found), name


def test_the_corrected_kernels_have_no_finding(libraries, tmp_path):
    assert run(libraries, tmp_path, KERNELS, *RIGHT)[1] == []


def test_a_shuffle_from_lanes_elsewhere_gives_the_same_checked_and_unchecked(libraries, tmp_path):
    printed = {
        run(libraries, tmp_path, KERNELS, "shuffle_in_a_branch", checks=checks)[0] for checks in ("", "all")
    }
    assert printed == {"more than the eight lanes have: 0.0\n"}


def test_only_what_was_asked_for_is_told(libraries, tmp_path):
    others = ("reduce_without_barrier", "barrier_in_a_branch")
    assert run(libraries, tmp_path, KERNELS, *others, checks="init")[1] == []
    assert run(libraries, tmp_path, KERNELS, "tile_with_a_hole", checks="races,divergence")[1] == []


def test_programs_without_bugs_run_the_same_and_have_no_finding(libraries, tmp_path):
    programs = Path(__file__).parents[1] / "driver" / "programs"
    printed, found = run(libraries, tmp_path, programs / "numba_kernels.py")
    assert printed.splitlines()[-1] == "right"
    assert found == []


def test_a_name_that_is_no_check_is_told(libraries, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import ctypes\ncuda, out = ctypes.CDLL('libcuda.so.1'), ctypes.c_uint64()\n"
        "assert cuda.cuInit(0) == cuda.cuCtxCreate_v2(ctypes.byref(out), 0, 0) == 0\n"
        "assert cuda.cuModuleLoadData(ctypes.byref(out), b'.version 8.0\\n.target sm_75\\n') == 0\n"
    )
    found = run(libraries, tmp_path, program, checks="race")[1]
    assert any("races, init, divergence and all" in line for line in found)


def test_what_the_checks_keep_is_bounded_and_a_line_says_so_once(libraries, tmp_path):
    # A page of each 4 KiB that a kernel touches, in a quarter of the 128 MiB.
    assert run(libraries, tmp_path, KERNELS, "strides")[1] == [
        "kernel strides uses more device memory than races are looked for in; take smaller inputs"
    ]
