"""The libraries of our own: loadable, with every name of NVIDIA's, and what is not done refused by name."""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_kernels.remoting.paths import native_build
from gpu_kernels.remoting.startup.gpu_kernels_frameworks import OWN
from tests.native_build import ROOT

SOURCES = ROOT / "remoting/native/libraries"
FOLDER = native_build({}).libraries
REFUSALS = {
    "libcufft.so.11": ("cufftXtSetGPUs", 16, "CUFFT_NOT_SUPPORTED"),
    "libcufft.so.12": ("cufftXtSetGPUs", 16, "CUFFT_NOT_SUPPORTED"),
    "libcusolver.so.11": ("cusolverDnXgesvdr", 9, "CUSOLVER_STATUS_NOT_SUPPORTED"),
    "libcusolver.so.12": ("cusolverDnXgesvdr", 9, "CUSOLVER_STATUS_NOT_SUPPORTED"),
    "libcusolverMg.so.11": ("cusolverMgGetrf", 9, "CUSOLVER_STATUS_NOT_SUPPORTED"),
    "libcusolverMg.so.12": ("cusolverMgGetrf", 9, "CUSOLVER_STATUS_NOT_SUPPORTED"),
    "libcusparse.so.12": ("cusparseSpGEMMreuse_copy", 10, "CUSPARSE_STATUS_NOT_SUPPORTED"),
    "libcusparseLt.so.0": ("cusparseLtInit", 10, "CUSPARSE_STATUS_NOT_SUPPORTED"),
    "libcurand.so.10": ("curandGetScrambleConstants32", 204, "CURAND_STATUS_ARCH_MISMATCH"),
    "libcufile.so.0": ("cuFileDriverOpen", 5007, "CU_FILE_PLATFORM_NOT_SUPPORTED"),
    "libnvshmem_host.so.3": ("nvshmemx_hostlib_init_attr", 3, "NVSHMEMX_ERROR_NOT_SUPPORTED"),
    "libcupti.so.12": ("cuptiProfilerInitialize", 27, "CUPTI_ERROR_NOT_SUPPORTED"),
    "libcupti.so.13": ("cuptiProfilerInitialize", 27, "CUPTI_ERROR_NOT_SUPPORTED"),
    "libnccl.so.2": ("ncclCommShrink", 5, "ncclInvalidUsage"),
}
NODES = {
    "libcusparseLt.so.0": None,
    "libcufile.so.0": None,
    "libnccl.so.2": None,
    "libnvshmem_host.so.3": "NVSHMEM",
}
VERSIONS = {"cufftGetVersion": ("libcufft.so.12", 12500), "cusolverGetVersion": ("libcusolver.so.11", 11705)}
HANDLES = [
    ("libcusolverMg.so.12", "cusolverMg"),
    ("libcusolverMg.so.11", "cusolverMg"),
]
pytestmark = pytest.mark.native


def stem(library: str) -> str:
    return library.removeprefix("lib").split(".so.")[0]


def names(library: str) -> dict[str, list[str]]:
    """What calls.txt has, with roles."""
    lines = (SOURCES / stem(library) / "calls.txt").read_text().splitlines()
    return {name: role for name, *role in (line.split() for line in lines if not line.startswith("#"))}


def dynamic(library: Path, *options: str) -> str:
    return subprocess.run(
        ["readelf", "-W", *options, library], check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize("library", OWN)
def test_it_needs_libc_alone_and_has_the_name_that_is_asked_for(library: str) -> None:
    lines = dynamic(FOLDER / library, "-d").splitlines()
    needed = {line.split("[")[1].rstrip("]") for line in lines if "(NEEDED)" in line}
    assert needed <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
    assert [line.split("[")[1].rstrip("]") for line in lines if "(SONAME)" in line] == [library]


@pytest.mark.parametrize("library", OWN)
def test_every_name_is_there_with_nvidias_version(library: str) -> None:
    table = dynamic(FOLDER / library, "--dyn-syms").splitlines()
    exported = {
        line.split()[7] for line in table if " GLOBAL " in line or " WEAK " in line if " UND " not in line
    }
    node = NODES.get(library, library)
    named = {f"{name}@@{node}" if node else name for name in names(library)}
    assert exported - {f"{node}@@{node}", node} == named


@pytest.mark.parametrize("library", OWN)
def test_the_list_has_every_name_of_nvidias_own(library: str) -> None:
    """Of the wheels that the frameworks of ``make frameworks`` came with."""
    theirs = [
        str(path)
        for path in (ROOT / "build").glob(f"frameworks-*/lib/python3*/site-packages/nvidia/*/lib/{library}")
    ]
    if not theirs:
        pytest.skip("NVIDIA's libraries are not here: make frameworks")
    spec = importlib.util.spec_from_file_location("library_names", SOURCES / "names.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    # Those that cuBLASLt has for cuBLAS alone are nobody else's.
    wanted = {name for name in tool.names(theirs) if not name.startswith("cublasLt_for_cublas_")}
    assert len(wanted) > 20
    assert wanted <= set(names(library))


@pytest.mark.parametrize("library", REFUSALS)
def test_what_is_not_done_is_refused_in_the_librarys_word_and_told_once(library: str) -> None:
    name, code, word = REFUSALS[library]
    program = f"""
import ctypes
library = ctypes.CDLL({str(FOLDER / library)!r})
assert all(hasattr(library, name) for name in {list(names(library))!r})
assert [library.{name}() for _ in range(2)] == [{code}] * 2
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"gpu-kernels: {name} is not supported and returns {word}. ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(("library", "prefix"), HANDLES)
def test_a_handle_is_found_out_when_it_is_none(library: str, prefix: str) -> None:
    loaded = ctypes.CDLL(str(FOLDER / library))
    create, destroy = (getattr(loaded, prefix + end) for end in ("Create", "Destroy"))
    handle = ctypes.c_void_p()
    assert create(None) == 3
    assert create(ctypes.byref(handle)) == 0
    assert [destroy(handle), destroy(handle), destroy(None)] == [0, 1, 1]


@pytest.mark.parametrize("call", VERSIONS)
def test_the_version_is_the_lists(call: str) -> None:
    library, expected = VERSIONS[call]
    loaded, version = ctypes.CDLL(str(FOLDER / library)), ctypes.c_int()
    assert getattr(loaded, call)(ctypes.byref(version)) == 0
    assert version.value == expected
    parts = [ctypes.c_int() for _ in range(3)]
    properties = getattr(loaded, call.replace("Version", "Property"))
    assert [properties(number, ctypes.byref(part)) for number, part in enumerate(parts)] == [0, 0, 0]
    major, minor, patch = (part.value for part in parts)
    assert major * 1000 + minor * 100 + patch == expected
    assert properties(3, ctypes.byref(parts[0])) != 0


def test_what_would_be_an_address_is_null_and_what_would_be_bytes_is_an_error() -> None:
    nvshmem = ctypes.CDLL(str(FOLDER / "libnvshmem_host.so.3"))
    nvshmem.nvshmem_malloc.restype = ctypes.c_void_p
    assert nvshmem.nvshmem_malloc(64) is None
    assert nvshmem.nvshmemid_init_status() == 0
    files = ctypes.CDLL(str(FOLDER / "libcufile.so.0"))
    files.cuFileRead.restype = ctypes.c_ssize_t
    assert files.cuFileRead(None, None, 8, 0, 0) == -5007


@pytest.mark.parametrize(("library", "version"), [("libcupti.so.12", 28), ("libcupti.so.13", 130500)])
def test_a_profiler_starts_and_ends_and_finds_no_records(library: str, version: int) -> None:
    program = f"""
import ctypes, time
cupti = ctypes.CDLL({str(FOLDER / library)!r})
said, subscriber, other, now = ctypes.c_uint32(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
assert cupti.cuptiGetVersion(ctypes.byref(said)) == 0 and said.value == {version}
assert cupti.cuptiSubscribe(ctypes.byref(subscriber), None, None) == 0
assert cupti.cuptiSubscribe(ctypes.byref(other), None, None) == 39
assert [cupti.cuptiActivityEnable(kind) for kind in range(1, 9)] == [0] * 8
assert cupti.cuptiActivityPushExternalCorrelationId(3, ctypes.c_uint64(5)) == 0
assert cupti.cuptiActivityPopExternalCorrelationId(3, ctypes.byref(now)) == 0 and now.value == 5
assert cupti.cuptiActivityPopExternalCorrelationId(3, None) == 18
assert cupti.cuptiGetTimestamp(ctypes.byref(now)) == 0 and abs(now.value / 1e9 - time.time()) < 60
assert cupti.cuptiActivityFlushAll(1) == 0
assert cupti.cuptiActivityGetNextRecord(None, ctypes.c_size_t(0), ctypes.byref(other)) == 12
assert not other.value
assert cupti.cuptiUnsubscribe(subscriber) == 0 and cupti.cuptiUnsubscribe(subscriber) == 1
text = ctypes.c_char_p()
assert cupti.cuptiGetResultString(12, ctypes.byref(text)) == 0
assert text.value == b"CUPTI_ERROR_MAX_LIMIT_REACHED"
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stderr == (
        "gpu-kernels: kernels and copies are not recorded on a slice of a GPU: a profile shows what the "
        "processor does.\n"
    )
