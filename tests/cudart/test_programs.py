"""CUDA C++ programs, compiled as students compile them, both ways; each prints what stands beside it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .conftest import Way

PROGRAMS = Path(__file__).parent / "programs"
BUILDS = {
    "default": [],
    "ptx": ["-gencode", "arch=compute_75,code=compute_75", "-Xfatbin", "--compress-mode=none"],
    "per-thread": ["--default-stream", "per-thread"],
}


@pytest.fixture(scope="session")
def compiled(nvcc: str, tmp_path_factory: pytest.TempPathFactory):
    """Compiles a program once a session: the folder is the cache."""
    folder = tmp_path_factory.mktemp("compiled")

    def compile(name: str, sources: list[Path], options: list[str]) -> Path:
        program = folder / name
        if not program.exists():
            command = [nvcc, "-cudart", "shared", "-std=c++17", *options, *sources, "-o", program]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
        return program

    return compile


def prints(way: Way, program: Path, expected: Path) -> None:
    done = way.run(program)
    assert (done.stdout, done.stderr) == (expected.read_text(), "")
    assert done.returncode == 0


@pytest.mark.parametrize("build", BUILDS)
def test_a_program_prints_what_it_should(compiled, way: Way, build: str):
    source = PROGRAMS / "vector_add.cu"
    prints(way, compiled(f"vector_add-{build}", [source], BUILDS[build]), source.with_suffix(".txt"))


def test_managed_variables_are_one_for_host_and_kernels(compiled, way: Way):
    source = PROGRAMS / "managed_variable.cu"
    prints(way, compiled("managed", [source], []), source.with_suffix(".txt"))


@pytest.mark.parametrize("build", ["default", "ptx"])
def test_objects_that_are_linked_on_the_device_find_each_other(compiled, way: Way, build: str):
    """With PTX alone nvcc lists its device runtime's images too, which are machine code for other GPUs."""
    folder = PROGRAMS / "linked"
    program = compiled(f"linked-{build}", sorted(folder.glob("*.cu")), ["-rdc=true", *BUILDS[build]])
    prints(way, program, folder / "main.txt")


@pytest.mark.parametrize("build", ["default", "ptx", "per-thread"])
def test_kernels_launch_kernels(compiled, way: Way, build: str):
    source = PROGRAMS / "device_launches.cu"
    program = compiled(f"device_launches-{build}", [source], ["-rdc=true", *BUILDS[build]])
    done = way.run(program)
    assert (done.stdout, done.returncode) == (source.with_suffix(".txt").read_text(), 0), done.stderr
    assert "launch of kernel fill with a block of 2000 x 1 x 1 threads" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_race_in_a_kernel_that_kernels_launch_is_told_once(compiled, straight: Way):
    program = compiled("racing_children", [PROGRAMS / "racing_children.cu"], ["-rdc=true", *BUILDS["ptx"]])
    done = straight.run(program, GPU_KERNELS_SOFTGPU_CHECK="all")
    assert done.returncode == 0, done.stderr
    findings = [line for line in done.stderr.splitlines() if "race: " in line]
    assert len(findings) == 1, done.stderr
    assert "kernel child" in findings[0]
