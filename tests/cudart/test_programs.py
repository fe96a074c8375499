"""CUDA C++ programs, compiled as students compile them, both ways; each prints what stands beside it."""

from __future__ import annotations

import subprocess
import sysconfig
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


LINKED = """
import ctypes, sys
from pathlib import Path
from cuda.bindings import driver as cuda

def done(answer):
    assert answer[0] == 0, answer
    return answer[1] if len(answer) == 2 else answer[1:]

done(cuda.cuInit(0))
done(cuda.cuCtxSetCurrent(done(cuda.cuDevicePrimaryCtxRetain(0))))
link = done(cuda.cuLinkCreate(0, [], []))
ptx, library = Path(sys.argv[1]).read_bytes() + b"\\0", sys.argv[2].encode()
kind = cuda.CUjitInputType
done(cuda.cuLinkAddData(link, kind.CU_JIT_INPUT_PTX, ptx, len(ptx), b"parent.ptx", 0, [], []))
done(cuda.cuLinkAddFile(link, kind.CU_JIT_INPUT_LIBRARY, library, 0, [], []))
image, size = done(cuda.cuLinkComplete(link))
parent = done(cuda.cuModuleGetFunction(done(cuda.cuModuleLoadData(image)), b"parent"))
value = done(cuda.cuMemAlloc(4))
done(cuda.cuMemsetD32(value, 100, 1))
done(cuda.cuLaunchKernel(parent, 1, 1, 1, 1, 1, 1, 0, 0, ((int(value),), (ctypes.c_void_p,)), 0))
back = bytearray(4)
done(cuda.cuMemcpyDtoH(back, value, 4))
print(int.from_bytes(back, "little"))
"""


@pytest.mark.parametrize("package", ["cu13", "cuda_runtime"])
def test_a_program_links_the_device_runtime_itself(nvcc: str, way: Way, tmp_path: Path, package: str):
    pytest.importorskip("cuda.bindings.driver")
    library = Path(sysconfig.get_path("purelib"), "nvidia", package, "lib", "libcudadevrt.a")
    ptx = tmp_path / "parent.ptx"
    source = PROGRAMS / "linked_parent.cu"
    subprocess.run([nvcc, "-rdc=true", "-arch=compute_75", "-ptx", source, "-o", ptx], check=True)
    assert way.python(LINKED, str(ptx), str(library)) == "164\n"


def test_a_race_in_a_kernel_that_kernels_launch_is_told_once(compiled, straight: Way):
    program = compiled("racing_children", [PROGRAMS / "racing_children.cu"], ["-rdc=true", *BUILDS["ptx"]])
    done = straight.run(program, GPU_KERNELS_SOFTGPU_CHECK="all")
    assert done.returncode == 0, done.stderr
    findings = [line for line in done.stderr.splitlines() if "race: " in line]
    assert len(findings) == 1, done.stderr
    assert "kernel child" in findings[0]
