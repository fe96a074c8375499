"""The checks in CUDA C++: the bug of each kernel of ``course.cu`` is found, its corrected form has none."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.places import PLACES, Process

SOURCE = Path(__file__).with_name("course.cu")

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not here to compile CUDA programs"),
]

BARRIER = "put __syncthreads() (numba: cuda.syncthreads()) between the two"
WARP = "put __syncwarp() (numba: cuda.syncwarp()) between the two"
FENCE = "put __threadfence_block() (numba: cuda.threadfence_block())"
WRONG = {
    "tiled_product": ("race: ", "shared b at byte", BARRIER),
    "warp_reduction": ("possible race: ", "lanes of a warp may go on at different times", WARP),
    "lock": ("possible race: ", "shared count at byte 0", FENCE),
    "flag": ("possible race: ", "shared value at byte 0", FENCE),
    "named_barriers": ("race: ", "shared part at byte", BARRIER),
    "group_of_lanes": ("race: ", "shared part at byte", WARP),
    "dynamic_halo": ("race: ", "dynamic shared line at byte", BARRIER),
    "branch_barrier": ("barrier divergence: ", "of its block at another one", "move the barrier out"),
    "matrix_of_a_warp": ("race: ", "shared a at byte", WARP),
    "rows_of_a_matrix": ("race: ", "shared rows at byte", WARP),
    "background_copy": ("race: ", "nobody waits for the copy", "cp.async.wait_group"),
    "counters": ("uninitialised: ", "shared counts at byte", "write it in every thread"),
    "histogram": ("race: ", "shared counts at byte", "use an atomic operation"),
    "own_addition": ("race: ", "shared sum at byte 0", BARRIER),
    "sum_of_blocks": ("race: ", "of block (0,0,0)", "use an atomic operation"),
    "smooth": ("race: ", "blocks of a launch run in any order", "write to another array"),
    "last_block": ("race: ", "device memory (of parameter 1) at byte", "put __threadfence()"),
    "whole_grid": ("race: ", "blocks of a launch run in any order", "read in a launch of its own"),
}


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("checks") / "course"
    options = ("-std=c++17", "-lineinfo", "-cudart", "shared", "-gencode", "arch=compute_75,code=compute_75")
    subprocess.run(["nvcc", *options, "-o", target, SOURCE], check=True)
    return target


@pytest.fixture(scope="module", params=["straight", "forwarded"])
def process(request: pytest.FixtureRequest) -> Iterator[Process]:
    with PLACES[request.param](1) as process:
        yield process


def findings(process: Process, program: Path, *arguments: str) -> dict[str, list[str]]:
    """Of each kernel, without what marks a line as ours."""
    found = defaultdict(list)
    with process() as environment:
        checked = environment | {"GPU_KERNELS_SOFTGPU_CHECK": "all"}
        done = subprocess.run([program, *arguments], env=checked, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == [f"{name}: no error" for name in WRONG], done.stderr
    for line in done.stderr.splitlines():
        text = line.partition(": ")[2]
        found[text.partition("kernel ")[2].partition(",")[0].partition(":")[0]].append(text)
    return found


def test_the_bug_of_each_kernel_is_found_with_its_line_and_remedy(process: Process, program: Path) -> None:
    found = findings(process, program, "wrong", "1")  # on the second GPU, where there is one
    for name, (begins, where, remedy) in WRONG.items():
        assert any(
            line.startswith(begins) and where in line and remedy in line and "course.cu:" in line
            for line in found[name]
        ), (name, found[name])
    assert set(found) == set(WRONG)


def test_the_corrected_kernels_have_no_finding(process: Process, program: Path) -> None:
    assert findings(process, program, "right") == {}
