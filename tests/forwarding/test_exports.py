"""What the libraries export, and what cuGetProcAddress hands out, against the headers."""

from __future__ import annotations

import ctypes
import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native_build import Build, build

from .conftest import codegen

OURS = {"gkIsMapped", "gkLibraryCall", "gkLife", "gkMapMemory", "gkNewLife", "gkTraffic", "gkWaitInStream"}
"""What the client has beyond CUDA."""


def exported(library: Path) -> set[str]:
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    )
    return {line.split()[-1] for line in listed.stdout.splitlines()}


def test_every_name_of_the_header_is_exported_and_no_other(native: Build, header: object) -> None:
    assert exported(native.client / "libcuda.so.1") == set(header.functions) | OURS  # type: ignore[attr-defined]


def test_library_needs_nothing_but_the_c_library(native: Build) -> None:
    listed = subprocess.run(
        ["readelf", "-d", native.client / "libcuda.so.1"], capture_output=True, text=True, check=True
    )
    needed = {line.split("[")[1].rstrip("]") for line in listed.stdout.splitlines() if "(NEEDED)" in line}
    assert needed <= {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}
    assert "[libcuda.so.1]" in listed.stdout


def test_shell_starts_with_the_library_preloaded(native: Build) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", "echo fine"],
        env={"LD_PRELOAD": str(native.client / "libcuda.so.1")},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("fine\n", "")


PROBE = """
import ctypes, json, sys
cuda = ctypes.CDLL("libcuda.so.1")
names = json.load(sys.stdin)
def look_up(name, version, flags):
    found, status = ctypes.c_void_p(), ctypes.c_int(7)
    result = cuda.cuGetProcAddress_v2(name.encode(), ctypes.byref(found), version, ctypes.c_uint64(flags),
                                      ctypes.byref(status))
    return result, found.value, status.value
addresses = {s: ctypes.cast(getattr(cuda, s), ctypes.c_void_p).value for s in names["symbols"]}
back = {address: symbol for symbol, address in addresses.items()}
answers = []
for name, version, flags in names["asked"]:
    result, address, status = look_up(name, version, flags)
    answers.append([result, back.get(address), status])
print(json.dumps(answers))
"""


def look_up(
    folder: Path, header: object, asked: list[tuple[str, int, int]]
) -> list[tuple[int, str | None, int]]:
    symbols = list(header.functions)  # type: ignore[attr-defined]
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        input=json.dumps({"symbols": symbols, "asked": asked}),
        env={"LD_LIBRARY_PATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return [tuple(answer) for answer in json.loads(done.stdout)]


@pytest.fixture(params=["forwarded", "straight"])
def libraries(request: pytest.FixtureRequest, native: Build) -> Path:
    """The folder of a libcuda.so.1: the client's, or the software GPU's."""
    if request.param == "forwarded":
        return native.client
    build(native.folder, "softgpu")
    return native.folder / "softgpu"


Table = dict[str, dict[bool, list[tuple[int, str]]]]


def expected(table: Table, name: str, version: int, flags: int) -> tuple[int, str | None, int]:
    """What cuda.h says of cuGetProcAddress, over cudaTypedefs.h: result, symbol, and how the search went."""
    forms = table.get(name)
    if forms is None:
        return 0, None, 1
    for per_thread in (True, False) if flags == 2 else (False,):
        found = [symbol for since, symbol in forms[per_thread] if since <= version]
        if found:
            return 0, found[-1], 0
    return 0, None, 2


def test_whatever_is_asked_of_the_look_up_it_answers_as_the_headers_table_says(
    libraries: Path, header: object
) -> None:
    table: Table = {}
    for entry, function in codegen("generate").match(header):
        forms = table.setdefault(entry.base, {True: [], False: []})
        forms[entry.per_thread].append((entry.version, function.symbol))
    asked = []
    for name, forms in table.items():
        versions = {-1, 0, 99999}
        for since, _ in itertools.chain(*forms.values()):
            versions |= {since - 1, since, since + 1}
        asked += [(name, version, flags) for version in sorted(versions) for flags in (0, 1, 2)]
    # Symbols are no names, and case counts.
    others = [symbol for symbol in header.functions if symbol not in table]  # type: ignore[attr-defined]
    others += ["cuinit", "cuInit ", "", "cudaFree"]
    asked += [(name, 99999, flags) for name in others for flags in (0, 2)]
    assert len(asked) > 5000
    wanted = [expected(table, *question) for question in asked]
    answers = look_up(libraries, header, asked)
    assert [(a, b, c) for a, b, c in zip(asked, answers, wanted, strict=True) if b != c] == []


@pytest.mark.parametrize(
    ("name", "version", "flags", "answer"),
    [
        ("cuMemAlloc", 3020, 0, (0, "cuMemAlloc_v2", 0)),
        ("cuMemAlloc", 3010, 0, (0, "cuMemAlloc", 0)),
        ("cuMemAlloc", 4000, 2, (0, "cuMemAlloc_v2", 0)),  # no form for the per-thread stream: the plain one
        ("cuMemcpyHtoD", 7000, 2, (0, "cuMemcpyHtoD_v2_ptds", 0)),
        ("cuMemcpyHtoD", 4000, 2, (0, "cuMemcpyHtoD_v2", 0)),  # before there were per-thread streams
        ("cuLaunchKernel", 13000, 1, (0, "cuLaunchKernel", 0)),
        ("cuCtxSynchronize", 13000, 0, (0, "cuCtxSynchronize_v2", 0)),
        ("cuMemAlloc", 1999, 0, (0, None, 2)),  # older than the function
        ("cuMemAlloc_v2", 13000, 0, (0, None, 1)),  # a symbol is not a name
        ("cuDoesNotExist", 13000, 0, (0, None, 1)),
        ("cuInit", 13000, 3, (1, None, 7)),  # both kinds of default stream
        ("cuInit", 13000, 4, (1, None, 7)),
    ],
)
def test_look_up(
    name: str,
    version: int,
    flags: int,
    answer: tuple[int, str | None, int],
    libraries: Path,
    header: object,
) -> None:
    assert look_up(libraries, header, [(name, version, flags)]) == [answer]


def test_first_form_of_the_look_up_reports_unknown_names_as_an_error(native: Build) -> None:
    cuda = ctypes.CDLL(str(native.client / "libcuda.so.1"))
    found = ctypes.c_void_p()
    assert cuda.cuGetProcAddress(b"cuInit", ctypes.byref(found), 12000, ctypes.c_uint64(0)) == 0
    assert cuda.cuGetProcAddress(b"cuNothing", ctypes.byref(found), 12000, ctypes.c_uint64(0)) == 500
    assert cuda.cuGetProcAddress(b"cuInit", ctypes.byref(found), 12000, ctypes.c_uint64(64)) == 1
    assert cuda.cuGetProcAddress(None, ctypes.byref(found), 12000, ctypes.c_uint64(0)) == 1


def test_no_export_table_exists(native: Build) -> None:
    cuda = ctypes.CDLL(str(native.client / "libcuda.so.1"))
    table = ctypes.c_void_p(1)
    assert cuda.cuGetExportTable(ctypes.byref(table), bytes(16)) != 0
    assert table.value is None


def test_error_names_and_texts(native: Build, header: object) -> None:
    cuda = ctypes.CDLL(str(native.client / "libcuda.so.1"))
    text = ctypes.c_char_p()
    for name, value in header.enumerators("CUDA_ERROR_").items():  # type: ignore[attr-defined]
        assert cuda.cuGetErrorName(value, ctypes.byref(text)) == 0
        assert text.value is not None
        assert name.startswith(text.value.decode()[:11])
        assert cuda.cuGetErrorString(value, ctypes.byref(text)) == 0
        assert text.value
    assert cuda.cuGetErrorName(424242, ctypes.byref(text)) == 1


class TestGeneratorRefuses:
    """A release of the headers that breaks the rules stops the build."""

    HEADER = """
    typedef enum cudaError_enum { CUDA_SUCCESS = 0 } CUresult;
    CUresult cuThing(int a);
    CUresult cuThing_v2(long a);
    typedef CUresult (*PFN_cuThing_v2000)(int a);
    """

    def test_a_typedef_too_few(self) -> None:
        module, generate = codegen("header"), codegen("generate")
        with pytest.raises(generate.UnmatchedError, match="cuThing"):
            generate.match(module.Header(self.HEADER))

    def test_another_abi(self) -> None:
        module, generate = codegen("header"), codegen("generate")
        text = self.HEADER + "typedef CUresult (*PFN_cuThing_v3000)(char a);"
        with pytest.raises(generate.UnmatchedError, match="cuThing_v2 is"):
            generate.match(module.Header(text))

    def test_a_call_that_the_header_does_not_have(self) -> None:
        module, calls = codegen("header"), codegen("calls")
        with pytest.raises(calls.CallsError, match="cuOther"):
            calls.read_calls("post cuOther", module.Header(self.HEADER))

    def test_a_pointer_without_a_role(self) -> None:
        module, calls = codegen("header"), codegen("calls")
        header = module.Header("typedef int CUresult; CUresult cuThing(int *a);")
        with pytest.raises(calls.CallsError, match="needs a role"):
            calls.read_calls("ask cuThing", header)
