"""What is told where nothing of a program's images can run: one true line, for who reads it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Way

pytestmark = pytest.mark.slow

LIBRARY = """
__global__ void fill(int* to) { *to = 7; }
extern "C" int run() {
    int* memory;
    if (cudaMalloc(&memory, 4)) return -1;
    fill<<<1, 1>>>(memory);
    return cudaGetLastError();
}
"""
# An instruction that no software GPU has: it wants memory of several GPUs.
REFUSED = """
__global__ void fill(int* to) {
    asm volatile("multimem.red.relaxed.sys.global.add.u32 [%0], %1;" :: "l"(to), "r"(1));
}
int main() {
    fill<<<1, 1>>>(nullptr);
    return cudaGetLastError() != cudaSuccess ? 3 : 0;
}
"""
NO_KERNEL_IMAGE = 209


def built(nvcc: str, source: str, output: Path, *options: str) -> Path:
    output.parent.mkdir(parents=True, exist_ok=True)
    code = output.with_name("code.cu")
    code.write_text(source)
    subprocess.run([nvcc, "-cudart", "shared", *options, code, "-o", output], check=True, capture_output=True)
    return output


@pytest.mark.parametrize("folder", ["site-packages/other", "mine"])
def test_a_library_of_machine_code_alone_is_told_of_by_who_can_build_it(
    way: Way, nvcc: str, tmp_path: Path, folder: str
):
    options = ("-shared", "-Xcompiler", "-fPIC", "-gencode", "arch=compute_90,code=sm_90")
    library = built(nvcc, LIBRARY, tmp_path / folder / "libkernels.so", *options)
    program = f"import ctypes; assert ctypes.CDLL({str(library)!r}).run() == {NO_KERNEL_IMAGE}"
    done = way.run(sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert "refused a fatbin: it has no PTX" in line
    installed = folder != "mine"
    assert (str(library) in line) == installed
    assert ("the package that this came with cannot be used" in line) == installed
    assert ("-gencode" in line) != installed


def test_a_linked_program_whose_ptx_is_refused_is_told_that_alone(way: Way, nvcc: str, tmp_path: Path):
    """The linked image is machine code; the PTX of its objects is what counts, and why that is refused."""
    program = built(nvcc, REFUSED, tmp_path / "refused", "-rdc=true", "-arch=sm_90")
    done = way.run(program)
    assert done.returncode == 3, done.stderr
    assert "multimem" in done.stderr
    assert "refused a fatbin" not in done.stderr
    assert done.stderr.count("gpu-kernels:") == 1
