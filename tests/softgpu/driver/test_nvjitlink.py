"""The stand-in for nvJitLink: its own interface, and that it can be preloaded into anything."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from ctypes import byref, c_size_t, c_void_p

import pytest

from . import ptx
from .nvidias import Compiled, exported, original
from .raw import LIBRARIES
from .test_images import ONLY_ARCH, entry, fatbin

SUCCESS, UNRECOGNIZED_OPTION, MISSING_ARCH, INVALID_INPUT, NVVM_COMPILE = 0, 1, 2, 3, 5
FINALIZE, NULL_INPUT, WRONG_TYPE, LTO_NOT_ENABLED = 9, 10, 12, 18
CUBIN, PTX, LTOIR, FATBIN, OBJECT, LIBRARY, ANY = 1, 2, 3, 4, 5, 6, 10
MAJORS = (12, 13)


@pytest.fixture(scope="session", params=MAJORS)
def nvjitlink(request) -> ctypes.CDLL:
    path = LIBRARIES / f"libnvJitLink.so.{request.param}"
    if not path.exists():
        pytest.skip(f"{path} is not built")
    return ctypes.CDLL(str(path))


class Link:
    def __init__(self, library: ctypes.CDLL, *options: bytes) -> None:
        self.library, self.handle = library, c_void_p()
        self.code = library.nvJitLinkCreate(byref(self.handle), len(options), (ctypes.c_char_p * 9)(*options))

    def add(self, kind: int, data: bytes, name: bytes = b"input") -> int:
        return self.library.nvJitLinkAddData(self.handle, kind, data, c_size_t(len(data)), name)

    def complete(self) -> int:
        return self.library.nvJitLinkComplete(self.handle)

    def text(self, what: str) -> bytes:
        size = c_size_t()
        assert getattr(self.library, f"nvJitLinkGet{what}Size")(self.handle, byref(size)) == SUCCESS
        out = ctypes.create_string_buffer(size.value)
        assert getattr(self.library, f"nvJitLinkGet{what}")(self.handle, out) == SUCCESS
        assert out.raw[-1:] == b"\0"
        return out.raw[:-1]

    def destroy(self) -> None:
        assert self.library.nvJitLinkDestroy(byref(self.handle)) == SUCCESS
        assert not self.handle.value


@pytest.fixture
def link(nvjitlink):
    made = Link(nvjitlink, b"-arch=sm_75")
    yield made
    made.destroy()


VERSION = """
import ctypes
version = (ctypes.c_uint * 2)()
assert ctypes.CDLL("libnvJitLink.so.13").nvJitLinkVersion(version, ctypes.byref(version, 4)) == 0
print(list(version) >= [12, 3])
"""


@pytest.mark.parametrize("major", MAJORS)
def test_its_version_says_whether_it_takes_lto_ir(major: int):
    """Without NVIDIA's own it is 12.2: numba then hands over PTX."""
    preload = str(LIBRARIES / "libnvJitLink.so.13")
    own = str(original("libnvJitLink.so.13").parent)
    for more, takes in (({}, "False\n"), ({"LD_LIBRARY_PATH": own}, "True\n")):
        python = [sys._base_executable, "-I", "-S", "-c", VERSION]  # type: ignore[attr-defined]
        environment = {"LD_PRELOAD": preload, "PATH": os.environ["PATH"]} | more
        done = subprocess.run(python, env=environment, capture_output=True, text=True)
        assert (done.stdout, done.stderr) == (takes, "")


def test_it_has_every_name_of_nvidias_but_the_one_that_no_header_has():
    missing = exported(original("libnvJitLink.so.13")) - exported(LIBRARIES / "libnvJitLink.so.13")
    assert missing == {"__nvJitLinkAPI"}


@pytest.fixture(scope="session")
def nvrtc() -> ctypes.CDLL:
    return ctypes.CDLL(str(original("libnvrtc.so.13")))


DOUBLES = 'extern "C" __device__ int doubled(int x) { return 2 * x; }'
CALLS = (
    'extern "C" __device__ int doubled(int); extern "C" __global__ void twice(int* x) { *x = doubled(*x); }'
)


def compiled(nvrtc: ctypes.CDLL, source: str, what: str) -> bytes:
    program = Compiled(nvrtc, source, "-arch=compute_75", "-rdc=true", *["-dlto"][: what == "LTOIR"])
    content = program.get(what)
    program.destroy()
    return content


@pytest.fixture
def lto_link(nvjitlink):
    original("libnvJitLink.so.13")
    made = Link(nvjitlink, b"-arch=sm_75", b"-lto")
    yield made
    made.destroy()


def runs_twice(cuda, image: bytes) -> int:
    """What `twice` makes of 21."""
    memory = cuda.new("cuMemAlloc_v2", c_size_t(4))
    number = ctypes.c_int(21)
    assert cuda.code("cuMemcpyHtoD_v2", c_void_p(memory), byref(number), c_size_t(4)) == 0
    assert cuda.launch(cuda.kernel(cuda.load(image.decode()), "twice"), c_void_p(memory)) == 0
    assert cuda.code("cuMemcpyDtoH_v2", byref(number), c_void_p(memory), c_size_t(4)) == 0
    return number.value


@pytest.mark.parametrize("kind", [LTOIR, ANY])
def test_lto_ir_becomes_ptx_of_one_piece(lto_link, nvrtc, cuda, kind):
    for source in (CALLS, DOUBLES):
        assert lto_link.add(kind, compiled(nvrtc, source, "LTOIR")) == SUCCESS
    assert lto_link.complete() == SUCCESS, lto_link.text("ErrorLog")
    image = lto_link.text("LinkedCubin")
    assert b"doubled" not in image, "it was optimised at the link"
    assert image == lto_link.text("LinkedPtx")
    assert runs_twice(cuda, image) == 42


def test_a_kernel_of_lto_ir_calls_a_function_of_ptx(lto_link, nvrtc, cuda):
    assert lto_link.add(PTX, compiled(nvrtc, DOUBLES, "PTX")) == SUCCESS
    assert lto_link.add(LTOIR, compiled(nvrtc, CALLS, "LTOIR")) == SUCCESS
    assert lto_link.complete() == SUCCESS, lto_link.text("ErrorLog")
    assert runs_twice(cuda, lto_link.text("LinkedCubin")) == 42


def test_a_function_of_lto_ir_that_only_ptx_calls_is_missed_in_words(lto_link, nvrtc):
    """NVIDIA's own makes PTX of all of a program's LTO IR or of none, and keeps what that uses."""
    assert lto_link.add(LTOIR, compiled(nvrtc, DOUBLES, "LTOIR")) == SUCCESS
    assert lto_link.add(PTX, compiled(nvrtc, CALLS, "PTX")) == SUCCESS
    assert lto_link.complete() == FINALIZE
    missed, advice = lto_link.text("ErrorLog").decode().splitlines()
    assert missed == "undefined symbol: doubled"
    assert "give what calls it as LTO IR, or it as PTX" in advice


def test_bad_lto_ir_gets_nvidias_error(lto_link, nvrtc):
    good = compiled(nvrtc, CALLS, "LTOIR")
    assert lto_link.add(LTOIR, b"nothing" * 9, b"mine") == WRONG_TYPE
    assert b"bad input: does not match type NVJITLINK_INPUT_LTOIR" in lto_link.text("ErrorLog")
    lto_link.add(LTOIR, good[: len(good) // 2], b"short")
    assert lto_link.complete() == NVVM_COMPILE
    assert lto_link.text("ErrorLog").count(b"bad input") == 1
    assert b"short: parse" in lto_link.text("ErrorLog")
    assert lto_link.library.nvJitLinkGetLinkedCubinSize(lto_link.handle, byref(c_size_t())) == INVALID_INPUT


def test_lto_ir_without_the_option_gets_nvidias_error(link, nvrtc):
    original("libnvJitLink.so.13")
    assert link.add(LTOIR, compiled(nvrtc, CALLS, "LTOIR")) == LTO_NOT_ENABLED
    assert b"(-lto)" in link.text("ErrorLog")


def test_an_option_that_nvidias_does_not_know_is_refused_with_the_lto_ir(nvjitlink, nvrtc):
    original("libnvJitLink.so.13")
    made = Link(nvjitlink, b"-arch=sm_75", b"-lto", b"-no-such-option")
    assert made.add(LTOIR, compiled(nvrtc, CALLS, "LTOIR")) == UNRECOGNIZED_OPTION
    made.destroy()


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not here")
@pytest.mark.parametrize(("option", "kind"), [("-fatbin", FATBIN), ("-c", OBJECT), ("-c", ANY)])
def test_what_nvcc_makes_for_link_time_optimisation_is_linked(lto_link, cuda, tmp_path, option, kind):
    """It keeps its LTO IR beside PTX that says only what is declared."""
    for name, source in (("calls", CALLS), ("doubles", DOUBLES)):
        (tmp_path / f"{name}.cu").write_text(source)
        command = ["nvcc", "-dlto", "-arch=sm_75", "-rdc=true", option, f"{name}.cu", "-o", name]
        subprocess.run(command, check=True, cwd=tmp_path)
        assert lto_link.add(kind, (tmp_path / name).read_bytes()) == SUCCESS
    assert lto_link.complete() == SUCCESS, lto_link.text("ErrorLog")
    assert runs_twice(cuda, lto_link.text("LinkedCubin")) == 42


def test_ptx_is_handed_through_and_loads(link, cuda):
    assert link.add(PTX, ptx.CALLER.encode(), b"caller") == SUCCESS
    assert link.add(ANY, ptx.DOUBLER.encode(), b"doubler\nand a line") == SUCCESS
    assert link.complete() == SUCCESS
    image = link.text("LinkedCubin")
    assert image == link.text("LinkedPtx")
    assert b"link input: doubler and a line\n" in image
    assert cuda.kernel(cuda.load(image.decode()), "twice")
    assert link.add(PTX, b".version 8.0", None) == INVALID_INPUT


def test_a_linked_image_can_be_linked_again(nvjitlink, link):
    link.add(PTX, ptx.DOUBLER.encode())
    link.complete()
    second = Link(nvjitlink, b"-arch=sm_75")
    assert second.add(CUBIN, link.text("LinkedCubin") + b"\0") == SUCCESS
    second.add(PTX, ptx.CALLER.encode())
    assert second.complete() == SUCCESS
    second.destroy()


def test_what_nobody_defines_is_told_when_it_is_linked(link):
    link.add(PTX, ptx.CALLER.encode())
    assert link.complete() == FINALIZE
    assert link.text("ErrorLog") == b"undefined symbol: doubled\n"
    assert link.library.nvJitLinkGetLinkedCubinSize(link.handle, byref(c_size_t())) == INVALID_INPUT


def test_what_the_engine_brings_is_not_undefined(link):
    text = ptx.HEADER + (
        ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
        '/* .extern .func no() */ // .extern .func nor(); \n.file 1 ".extern .func me();"\n'
        ".extern .shared .align 4 .b8 dynamic[];\n"
        ".visible .global .align 1 .b8 text[3] = {123, 125, 59};\n"
        ".extern .global .align 1 .b8 text[3];\n"
        ".visible .entry k(.param .u64 to) { bra done; done: ret; }\n"
    )
    link.add(PTX, text.encode())
    assert link.complete() == SUCCESS, link.text("ErrorLog")


@pytest.mark.parametrize(
    ("kind", "data", "code", "says"),
    [
        (CUBIN, b"\x7fELF" + bytes(60), WRONG_TYPE, b"machine code"),
        (PTX, b"\x7fELF", WRONG_TYPE, b"no PTX"),
        (FATBIN, fatbin(entry(b"\x7fELF", kind=2)), WRONG_TYPE, b"no PTX"),
        (FATBIN, fatbin(entry(b"zip", flags=0x8000)), WRONG_TYPE, b"compressed"),
        (FATBIN, fatbin(entry(b"\x7fELF"))[:40], WRONG_TYPE, b"no PTX"),
        (99, b"x", INVALID_INPUT, b""),
        (PTX, b"", NULL_INPUT, b""),
    ],
)
def test_what_a_software_gpu_cannot_run_is_refused_with_a_reason(link, kind, data, code, says):
    assert link.add(kind, data, b"thing") == code
    assert says in link.text("ErrorLog")


def test_of_newer_ptx_the_oldest_is_taken_that_is_not_for_one_gpu_alone(link, cuda):
    other = b".version 8.0 nothing"
    entries = (
        entry(other, arch=120),
        entry(other, arch=90, flags=ONLY_ARCH),
        entry((ptx.HEADER + ptx.FILL).encode(), arch=100),
    )
    assert link.add(FATBIN, fatbin(*entries)) == SUCCESS
    assert link.complete() == SUCCESS
    assert cuda.kernel(cuda.load(link.text("LinkedCubin").decode()), "fill")


def test_fatbins_objects_and_archives_give_their_ptx(link):
    inner = fatbin(entry(ptx.DOUBLER.encode()))
    assert link.add(FATBIN, inner) == SUCCESS
    assert (
        link.add(OBJECT, b"\x7fELF" + bytes(100) + fatbin(entry(ptx.CALLER.encode())) + bytes(9)) == SUCCESS
    )
    assert link.add(LIBRARY, b"!<arch>\n machine code only, \x50\xed\x55\xba cut") == SUCCESS
    assert link.complete() == SUCCESS
    assert link.text("LinkedCubin").count(b"// gpu-kernels link input") == 2


def test_options_and_nothing_are_checked(nvjitlink):
    assert Link(nvjitlink, b"-lto").code == MISSING_ARCH
    assert Link(nvjitlink, b"arch").code == UNRECOGNIZED_OPTION
    empty = Link(nvjitlink, b"-arch=sm_75", b"-maxrregcount=32")
    assert empty.complete() == FINALIZE
    assert empty.library.nvJitLinkAddFile(empty.handle, PTX, b"/no/such/file") == INVALID_INPUT
    assert b"cannot be opened" in empty.text("ErrorLog")
    assert nvjitlink.nvJitLinkComplete(None) == INVALID_INPUT
    assert nvjitlink.nvJitLinkGetErrorLogSize(None, byref(c_size_t())) == INVALID_INPUT
    empty.destroy()


def test_a_shell_starts_with_it_and_it_needs_only_the_c_library():
    preload = ":".join(str(LIBRARIES / f"libnvJitLink.so.{major}") for major in MAJORS)
    environment = {**os.environ, "LD_PRELOAD": preload}
    result = subprocess.run(["/bin/sh", "-c", "echo fine"], env=environment, capture_output=True, check=True)
    assert (result.stdout, result.stderr) == (b"fine\n", b"")
    for major in MAJORS:
        listed = subprocess.run(
            ["readelf", "-d", LIBRARIES / f"libnvJitLink.so.{major}"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert [
            line for line in listed.stdout.splitlines() if "NEEDED" in line and "libc.so" not in line
        ] == []


@pytest.mark.parametrize("options", [[b"-maxrregcount=40"], [b"-maxrregcount=99", b"-maxrregcount=40"]])
def test_a_limit_of_registers_goes_with_the_container(nvjitlink, options):
    made = Link(nvjitlink, b"-arch=sm_75", *options)
    assert made.add(PTX, (ptx.HEADER + ptx.FILL).encode()) == SUCCESS
    assert made.complete() == SUCCESS
    assert made.text("LinkedCubin").endswith(b'\n.pragma "gpu-kernels max registers 40";\n')
    made.destroy()


@pytest.mark.parametrize("option", [b"-maxrregcount=", b"-maxrregcount=4x", b"-maxrregcount=1000"])
def test_a_limit_of_registers_that_is_none_is_refused(nvjitlink, option):
    assert Link(nvjitlink, b"-arch=sm_75", option).code == UNRECOGNIZED_OPTION
