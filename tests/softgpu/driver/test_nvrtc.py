"""The stand-in for NVRTC: NVIDIA's own answers, but PTX where they would be machine code."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_int
from pathlib import Path

import pytest

from .nvidias import Compiled, exported, original
from .raw import LIBRARIES
from .test_nvjitlink import CUBIN, SUCCESS, Link

MAJORS = (12, 13)
NO_BINARY_FOR_GPU = 209
KERNEL = 'extern "C" __global__ void fill(int* to, int value) { to[threadIdx.x] = value + threadIdx.x; }'
DOUBLER = 'extern "C" __device__ int doubled(int x) { return 2 * x; }'
CALLER = (
    'extern "C" __device__ int doubled(int); extern "C" __global__ void twice(int* x) { *x = doubled(*x); }'
)


@pytest.fixture(scope="session", params=MAJORS)
def nvrtc(request) -> ctypes.CDLL:
    """The stand-in for each release. Here is NVIDIA's of one alone, which serves both."""
    original("libnvrtc.so.13")
    return ctypes.CDLL(str(LIBRARIES / f"libnvrtc.so.{request.param}"))


@pytest.fixture(scope="session")
def theirs() -> ctypes.CDLL:
    return ctypes.CDLL(str(original("libnvrtc.so.13")))


def test_it_has_every_name_of_nvidias():
    assert exported(original("libnvrtc.so.13")) - exported(LIBRARIES / "libnvrtc.so.13") == set()


@pytest.mark.parametrize("option", ["-arch=sm_75", "--gpu-architecture=sm_75"])
def test_machine_code_is_ptx_that_runs(nvrtc, cuda, option):
    program = Compiled(nvrtc, KERNEL, option)
    assert program.code == 0
    image = program.get("CUBIN")
    assert image.endswith(b"\0")
    assert image.count(b"\0") == 1
    assert program.get("PTX").rstrip(b"\0") in image
    memory = cuda.new("cuMemAlloc_v2", ctypes.c_size_t(128))
    function = cuda.kernel(cuda.load(image.decode().rstrip("\0")), "fill")
    assert cuda.launch(function, ctypes.c_void_p(memory), c_int(7), block=(32, 1, 1)) == 0
    filled = (c_int * 32)()
    assert cuda.code("cuMemcpyDtoH_v2", filled, ctypes.c_void_p(memory), ctypes.c_size_t(128)) == 0
    assert list(filled) == list(range(7, 39))
    program.destroy()


def test_machine_code_can_be_linked(nvrtc, cuda):
    """What NVRTC gave for a cubin is taken by the linker's stand-in as one."""
    whole = Link(ctypes.CDLL(str(LIBRARIES / "libnvJitLink.so.13")), b"-arch=sm_75")
    for source in (CALLER, DOUBLER):
        program = Compiled(nvrtc, source, "-arch=sm_75", "-rdc=true")
        assert whole.add(CUBIN, program.get("CUBIN")) == SUCCESS
        program.destroy()
    assert whole.complete() == SUCCESS, whole.text("ErrorLog")
    assert cuda.kernel(cuda.load(whole.text("LinkedCubin").decode()), "twice")
    whole.destroy()


@pytest.mark.parametrize(
    "options",
    [
        ("-arch=compute_75",),
        ("-arch=sm_75", "-dlto"),
        ("-arch=sm_75", "--no-such-option"),
        ("-arch=sm_74",),
        (),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("source", [KERNEL, 'extern "C" __global__ void fill(int* to) { to = nothing; }'])
def test_all_else_is_nvidias_answer(nvrtc, theirs, source, options):
    ours, own = (Compiled(library, source, *options) for library in (nvrtc, theirs))
    assert ours.code == own.code
    for what in ("ProgramLog", "PTX", "CUBIN", "LTOIR", "OptiXIR"):
        assert ours.get(what) == own.get(what), what
    nvrtc.nvrtcGetErrorString.restype = theirs.nvrtcGetErrorString.restype = ctypes.c_char_p
    assert nvrtc.nvrtcGetErrorString(ours.code) == theirs.nvrtcGetErrorString(own.code)
    ours.destroy()
    own.destroy()


def test_what_ptxas_would_refuse_is_refused_by_it(nvrtc):
    """NVIDIA's own still makes the machine code that nobody here takes: its errors are in it."""
    wrong = Compiled(nvrtc, '__global__ void k() { asm("no.such.instruction;"); }', "-arch=sm_75")
    assert wrong.code != 0
    assert b"ptxas" in wrong.get("ProgramLog")
    wrong.destroy()


def test_names_and_versions_are_handed_on(nvrtc, theirs):
    program = Compiled(nvrtc, "template <class T> __global__ void k(T* x) { *x = 1; }", "-arch=sm_75")
    program.destroy()
    handle, lowered = ctypes.c_void_p(), ctypes.c_char_p()
    source = b"template <class T> __global__ void k(T* x) { *x = 1; }"
    assert nvrtc.nvrtcCreateProgram(byref(handle), source, b"k.cu", 0, None, None) == 0
    assert nvrtc.nvrtcAddNameExpression(handle, b"k<float>") == 0
    assert nvrtc.nvrtcCompileProgram(handle, 1, (ctypes.c_char_p * 1)(b"-arch=sm_75")) == 0
    assert nvrtc.nvrtcGetLoweredName(handle, b"k<float>", byref(lowered)) == 0
    assert lowered.value == b"_Z1kIfEvPT_"
    assert nvrtc.nvrtcDestroyProgram(byref(handle)) == 0
    ours, own = (c_int * 2)(), (c_int * 2)()
    assert nvrtc.nvrtcVersion(byref(ours, 0), byref(ours, 4)) == 0
    assert theirs.nvrtcVersion(byref(own, 0), byref(own, 4)) == 0
    assert list(ours) == list(own)
    assert nvrtc.nvrtcGetCUBINSize(None, byref(ctypes.c_size_t())) != 0
    assert nvrtc.nvrtcGetCUBIN(None, None) != 0


def test_several_threads_compile_at_once(nvrtc):
    def image_of(number: int) -> bytes:
        program = Compiled(nvrtc, f"__global__ void k{number}(int* to) {{ *to = {number}; }}", "-arch=sm_75")
        image = program.get("CUBIN")
        program.destroy()
        return image

    with ThreadPoolExecutor(4) as pool:
        images = list(pool.map(image_of, range(12)))
    assert all(f"k{number}".encode() in image for number, image in enumerate(images))


def test_nvidias_own_by_its_path_makes_machine_code_that_is_refused_by_name(theirs, cuda, capfd):
    """The loader gives who names a file that file. The refusal of what it makes says how to have PTX."""
    program = Compiled(theirs, KERNEL, "-arch=sm_75")
    image = program.get("CUBIN")
    assert image.startswith(b"\x7fELF")
    module = ctypes.c_void_p()
    assert cuda.code("cuModuleLoadData", byref(module), image) == NO_BINARY_FOR_GPU
    assert "found by their names (libnvrtc.so.13" in capfd.readouterr().err
    program.destroy()


WITHOUT = """
import ctypes, sys
nvrtc, size = ctypes.CDLL("libnvrtc.so.13"), ctypes.c_size_t()
assert "site-packages" not in open("/proc/self/maps").read()
version = (ctypes.c_int * 2)()
assert nvrtc.nvrtcVersion(version, version) == 11
assert nvrtc.nvrtcGetCUBINSize(None, ctypes.byref(size)) == 11
nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
print(nvrtc.nvrtcGetErrorString(11).decode())
"""


def alone(program: str, **extra: str) -> subprocess.CompletedProcess[str]:
    """A Python without any packages, with all stand-ins preloaded."""
    preload = ":".join(str(LIBRARIES / name) for name in ("libnvrtc.so.13", "libnvrtc.so.12"))
    environment = {"LD_PRELOAD": preload, "PATH": os.environ["PATH"]} | extra
    return subprocess.run(
        [sys._base_executable, "-I", "-S", "-c", program],  # type: ignore[attr-defined]
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("folders", [{}, {"LD_LIBRARY_PATH": str(LIBRARIES)}], ids=["alone", "straight"])
def test_without_nvidias_it_says_once_what_to_install(folders: dict[str, str]):
    """Straight, the stand-ins' own folder is among those that the loader looks in."""
    done = alone(WITHOUT, **folders)
    assert done.returncode == 0, done.stderr
    assert done.stderr == (
        "gpu-kernels: NVIDIA's libnvrtc was not found, which is what compiles for a software GPU too: "
        "pip install nvidia-cuda-nvrtc, or put the folder of a CUDA toolkit's libraries on LD_LIBRARY_PATH\n"
    )
    assert "pip install nvidia-cuda-nvrtc" in done.stdout


FOUND = """
import ctypes
version = (ctypes.c_int * 2)()
assert ctypes.CDLL("libnvrtc.so.12").nvrtcVersion(version, ctypes.byref(version, 4)) == 0
print(version[0])
"""


@pytest.mark.parametrize("where", ["LD_LIBRARY_PATH", "GPU_KERNELS_PACKAGES"])
def test_nvidias_is_found_where_the_loader_and_python_look(where: str):
    folder = original("libnvrtc.so.13").parent
    root = next(path for path in folder.parents if path.name.endswith("-packages"))
    named = folder if where == "LD_LIBRARY_PATH" else root
    done = alone(FOUND, **{where: f"/no/such/folder:{named}"})
    assert (done.stdout, done.stderr) == ("13\n", "")


def test_a_toolkit_is_found_by_its_variable(tmp_path: Path):
    folder = original("libnvrtc.so.13").parent
    (tmp_path / "lib64").symlink_to(folder)
    done = alone(FOUND, CUDA_HOME=str(tmp_path))
    assert (done.stdout, done.stderr) == ("13\n", "")


LINKED = """
#include <stdio.h>
#include <stdlib.h>
typedef struct _nvrtcProgram* program;
int nvrtcCreateProgram(program*, const char*, const char*, int, const char* const*, const char* const*);
int nvrtcCompileProgram(program, int, const char* const*);
int nvrtcGetCUBINSize(program, size_t*);
int nvrtcGetCUBIN(program, char*);
int main(void) {
    const char* options[] = {"-arch=sm_75"};
    program made;
    size_t size;
    if (nvrtcCreateProgram(&made, "__global__ void k() {}", "k.cu", 0, 0, 0)) return 1;
    if (nvrtcCompileProgram(made, 1, options) || nvrtcGetCUBINSize(made, &size)) return 2;
    char* image = malloc(size);
    if (nvrtcGetCUBIN(made, image)) return 3;
    puts(image);
    return 0;
}
"""


def test_a_program_that_is_linked_with_nvidias_gets_ptx(tmp_path: Path):
    """The loader takes what has the SONAME already; the stand-in finds NVIDIA's by the RUNPATH."""
    library = original("libnvrtc.so.13")
    (tmp_path / "linked.c").write_text(LINKED)
    command = [
        "cc",
        tmp_path / "linked.c",
        library,
        f"-Wl,-rpath,{library.parent}",
        "-o",
        tmp_path / "linked",
    ]
    subprocess.run(command, check=True)
    preload = str(LIBRARIES / "libnvrtc.so.13")
    done = subprocess.run([tmp_path / "linked"], env={"LD_PRELOAD": preload}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("// gpu-kernels link input: NVRTC\n")
    assert ".visible .entry _Z1kv()" in done.stdout
