"""The libraries as files: names, versions, what loading them does."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from .conftest import MAJORS, NATIVE, Way
from .test_host_programs import headers

DECLARED = re.compile(r"^extern .*?\b(cuda[A-Za-z0-9]\w*)\s*\(", re.MULTILINE)
TORCH_IMPORTS = (Path(__file__).parent / "torch_imports.txt").read_text().split()


def exported(library: Path) -> dict[str, str]:
    """Name to version of what a library exports."""
    listed = subprocess.run(
        ["readelf", "--dyn-syms", "-W", library], capture_output=True, text=True, check=True
    )
    found = {}
    for line in listed.stdout.splitlines():
        words = line.split()
        if len(words) == 8 and words[3] in ("FUNC", "OBJECT") and words[6] != "UND":
            name, _, version = words[7].partition("@@")
            found[name] = version
    return found


def dynamic(library: Path) -> str:
    command = ["readelf", "-d", library]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("folder", [NATIVE.softgpu, NATIVE.client], ids=lambda path: path.name)
def test_the_library_is_named_and_versioned_as_programs_are_linked_with_it(folder: Path, major: int):
    library = folder / f"libcudart.so.{major}"
    names = exported(library)
    assert set(names.values()) <= {f"libcudart.so.{major}", ""}
    assert names["cudaMalloc"] == f"libcudart.so.{major}"
    facts = dynamic(library)
    assert f"[libcudart.so.{major}]" in facts
    assert "[$ORIGIN]" in facts
    needed = {line.split("[")[1].rstrip("]") for line in facts.splitlines() if "(NEEDED)" in line}
    assert needed <= {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}


@pytest.mark.parametrize("major", MAJORS)
def test_every_name_of_the_header_is_there(major: int):
    header = Path(headers(major)) / "cuda_runtime_api.h"
    declared = set(DECLARED.findall(header.read_text()))
    assert len(declared) > 250
    assert declared - set(exported(NATIVE.softgpu / f"libcudart.so.{major}")) == set()


@pytest.mark.parametrize("major", MAJORS)
def test_every_name_of_nvidias_library_is_there(major: int):
    """What its headers do not declare too: what other compilers than nvcc call."""
    nvidias = Path(headers(major)).parent / "lib" / f"libcudart.so.{major}"
    assert set(exported(nvidias)) - set(exported(NATIVE.softgpu / f"libcudart.so.{major}")) == set()


DECLARED_ANYWHERE = re.compile(r"\b(?:CUDAAPI|CUDARTAPI)\s+((?:__)?cu(?:da)?[A-Z]\w*)\s*\(")
NOT_THERE = {
    "cuWGLGetDevice",  # Windows'
    # References to textures and surfaces, which left with CUDA 12: NVIDIA's libraries have none of these.
    *("__cudaRegisterTexture", "__cudaRegisterSurface"),
}
OF_KERNELS = "cuda_device_runtime_api.h"
NVCCS = (Path("/usr/local/cuda/include/crt/host_runtime.h"), Path("/usr/local/cuda/include/cudaProfiler.h"))


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("folder", [NATIVE.softgpu, NATIVE.client], ids=lambda path: path.name)
def test_every_function_that_a_header_declares_is_there(folder: Path, major: int):
    """Of all headers of the wheel, and of what nvcc brings for its own output where that is installed."""
    found = {path for path in Path(headers(major)).glob("cu*.h") if path.name != OF_KERNELS}
    texts = [path.read_text(errors="replace") for path in (*found, *NVCCS) if path.exists()]
    declared = {name for text in texts for name in DECLARED_ANYWHERE.findall(text)}
    there = {*exported(folder / f"libcudart.so.{major}"), *exported(folder / "libcuda.so.1")}
    assert len(declared) > 700
    assert declared - there - NOT_THERE == set()


def test_the_profilers_functions_are_there():
    """cudaProfiler.h comes with nvcc; PyCUDA imports them."""
    names = {"cuProfilerInitialize", "cuProfilerStart", "cuProfilerStop"}
    for folder in (NATIVE.softgpu, NATIVE.client):
        assert names - set(exported(folder / "libcuda.so.1")) == set()


def test_every_name_that_pytorch_imports_is_there():
    assert set(TORCH_IMPORTS) - set(exported(NATIVE.softgpu / "libcudart.so.13")) == set()


def test_a_shell_starts_silently_and_opens_no_driver(way: Way):
    done = way.run("/bin/sh", "-c", "cat /proc/self/maps")
    assert done.stderr == ""
    assert all(f"libcudart.so.{major}" in done.stdout for major in MAJORS)
    assert "libcuda.so" not in done.stdout


BOTH = """
import ctypes
major = {n: ctypes.CDLL(f"libcudart.so.{n}") for n in (12, 13)}
version, pointer = ctypes.c_int(), ctypes.c_void_p()
for n, library in major.items():
    assert library.cudaRuntimeGetVersion(ctypes.byref(version)) == 0
    print(version.value // 1000)
assert major[12].cudaMalloc(ctypes.byref(pointer), 64) == 0
assert major[13].cudaMemset(pointer, 1, ctypes.c_size_t(64)) == 0
assert major[13].cudaFree(pointer) == 0
assert major[13].cudaFree(pointer) == 1
print(major[12].cudaPeekAtLastError(), major[13].cudaPeekAtLastError())
"""


def test_both_releases_work_in_one_process_each_with_its_own_last_error(way: Way):
    assert way.python(BOTH).split() == ["12", "13", "0", "1"]


def test_an_unsupported_call_names_itself_once(way: Way, tmp_path: Path):
    log = tmp_path / "log"
    program = """
import ctypes
runtime = ctypes.CDLL("libcudart.so.13")
for _ in range(3):
    assert runtime.cudaImportExternalMemory(None, None) == 801
assert runtime.cudaGetLastError() == 801
"""
    way.python(program, GPU_KERNELS_LOG=str(log))
    assert log.read_text().count("cudaImportExternalMemory") == 1
