"""CUDA C++ programs that are linked with a maths library, compiled by nvcc as the guide says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gpu_kernels.remoting.paths import native_build

HERE = Path(__file__).parent / "cuda"
PROGRAMS = {
    "pi": ("curand", 10, "pi again\n"),
    "transform": ("cufft", 12, "37 512\n987 512\n"),
}
pytestmark = [
    pytest.mark.native,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not here to compile the programs"),
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_is_linked_with_a_library_computes(environment, tmp_path, name: str) -> None:
    library, major, printed = PROGRAMS[name]
    libraries = native_build().libraries
    # What -lNAME finds beside a toolkit's headers.
    (tmp_path / f"lib{library}.so").symlink_to(libraries / f"lib{library}.so.{major}")
    program = tmp_path / name
    command = ["nvcc", "-cudart", "shared", "-gencode", "arch=compute_75,code=compute_75"]
    command += [HERE / f"{name}.cu", "-o", program, "-L", tmp_path, f"-l{library}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ran = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=200)
    assert (ran.returncode, ran.stdout) == (0, printed), ran.stderr
