from __future__ import annotations

import ctypes
import struct
from ctypes import byref, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

import pytest

from . import ptx, raw

FILL = (ptx.HEADER + ptx.FILL).encode()


LZ4, ZSTD, ONLY_ARCH, ONLY_FAMILY = 0x2000, 0x8000, 0x100000, 0x200000


def fatbin(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def entry(payload: bytes, *, kind: int = 1, arch: int = 75, flags: int = 0, plain: int = 0) -> bytes:
    compressed = len(payload) if flags & (LZ4 | ZSTD) else 0
    payload += bytes(-len(payload) % 8)
    header = bytearray(64)
    struct.pack_into("<HHIQI", header, 0, kind, 0x101, 64, len(payload), compressed)
    struct.pack_into("<I", header, 28, arch)
    struct.pack_into("<Q", header, 40, flags)
    struct.pack_into("<Q", header, 56, plain)
    return bytes(header) + payload


def lz4(data: bytes) -> bytes:
    """One LZ4 block of literals only, but for a run at the start that refers to itself."""
    assert data[:1] == b"\n"
    literals, out = data[1:], bytearray(b"\x10\n")  # one literal, then a match of 4 of it
    data = b"\n" * 5 + literals
    out += struct.pack("<H", 1)
    rest = len(literals)
    out.append(0xF0)
    rest -= 15
    while rest >= 255:
        out.append(255)
        rest -= 255
    out.append(rest)
    return bytes(out) + literals


def zstd(data: bytes) -> bytes:
    """One zstd frame of stored blocks: magic number, a header that says the size, blocks."""
    blocks, limit = bytearray(), 100_000
    for at in range(0, len(data), limit):
        part = data[at : at + limit]
        blocks += (len(part) << 3 | (at + limit >= len(data))).to_bytes(3, "little") + part
    return struct.pack("<IBI", 0xFD2FB528, 0xA0, len(data)) + bytes(blocks)


ZSTD_HELLO = zstd(b"hello")


def runs(cuda, image: bytes | object) -> bool:
    module = cuda.new("cuModuleLoadData", image)
    to = cuda.alloc(4)
    cuda.launch(cuda.kernel(module, "fill"), c_uint64(to), c_uint32(77), c_uint32(1))
    return cuda.read(to, 4) == struct.pack("<I", 77)


def test_ptx_loads_as_text_and_from_fatbins(cuda):
    assert runs(cuda, FILL)
    assert runs(cuda, fatbin(entry(b"\x7fELF", kind=2), entry(FILL)))
    other = FILL.replace(b"fill", b"else")
    assert runs(cuda, fatbin(entry(other, arch=60), entry(FILL, arch=70), entry(other, arch=90)))
    assert runs(cuda, fatbin(entry(lz4(FILL), flags=LZ4, plain=len(FILL) + 4)))
    assert runs(cuda, fatbin(entry(zstd(FILL), flags=ZSTD, plain=len(FILL))))


def test_where_no_ptx_suits_the_oldest_newer_one_is_taken(cuda):
    other = FILL.replace(b"fill", b"else")
    assert runs(cuda, fatbin(entry(other, arch=120), entry(FILL, arch=90), entry(other, arch=100)))


def test_ptx_for_one_architecture_alone_is_passed_over(cuda):
    other = FILL.replace(b"fill", b"else")
    specific = entry(other, arch=90, flags=ONLY_ARCH), entry(other, arch=100, flags=ONLY_FAMILY)
    assert runs(cuda, fatbin(*specific, entry(FILL, arch=120)))


IMAGES = Path(__file__).parent.parent / "images"


@pytest.mark.parametrize("image", sorted(IMAGES.glob("*.fatbin")), ids=lambda image: image.stem)
def test_what_the_fuzzer_starts_from_loads(cuda, image):
    assert cuda.new("cuModuleLoadData", image.read_bytes())


def test_an_object_that_unpacks_to_more_than_a_link_may_hold_is_refused(cuda):
    half = 40 << 20
    run = bytes([0x1F, 0x20, 1, 0]) + b"\xff" * ((half - 20) // 255) + bytes([(half - 20) % 255, 0x00])
    bomb = fatbin(entry(run, flags=LZ4, plain=half))
    state = new_link(cuda)
    code = cuda.code("cuLinkAddData_v2", state, 3, bomb * 2, len(bomb) * 2, b"bomb", 0, None, None)
    assert code == raw.OUT_OF_MEMORY
    cuda.cuLinkDestroy(state)


def test_a_wrapper_leads_to_its_fatbin(cuda):
    inner = ctypes.create_string_buffer(fatbin(entry(FILL)))
    assert runs(cuda, struct.pack("<IIQQ", 0x466243B1, 1, ctypes.addressof(inner), 0))


@pytest.mark.parametrize(
    ("image", "code", "says"),
    [
        (b"\x7fELF\x02\x01\x01" + bytes(100), raw.NO_BINARY_FOR_GPU, "runs PTX only"),
        (fatbin(entry(b"\x7fELF", kind=2)), raw.NO_BINARY_FOR_GPU, "no PTX"),
        (fatbin(entry(FILL, arch=90, flags=ONLY_ARCH)), raw.NO_BINARY_FOR_GPU, "only PTX is for sm_90a"),
        (fatbin(entry(FILL, arch=100, flags=ONLY_FAMILY)), raw.NO_BINARY_FOR_GPU, "only PTX is for sm_100f"),
        (fatbin(entry(b"packed", flags=ZSTD, plain=9)), 200, "damaged"),
        (fatbin(entry(ZSTD_HELLO, flags=ZSTD, plain=6)), 200, "damaged"),
        (fatbin(entry(ZSTD_HELLO, flags=ZSTD, plain=4)), 200, "damaged"),
        (fatbin(entry(ZSTD_HELLO, flags=ZSTD, plain=2**40)), 200, "sizes"),
        (fatbin(entry(b"\xff" * 40, flags=LZ4, plain=900)), 200, "damaged"),
        (fatbin(entry(b"\x00", flags=LZ4, plain=2**40)), 200, "sizes"),
        (fatbin(entry(FILL)[:64]), 200, "larger than the whole"),
        (struct.pack("<IHHQ", 0xBA55ED50, 1, 4, 0), 200, "header"),
        (b"\x00\x01\x02\x03", 200, "neither PTX"),
        (b"\xff\xfe\xfd\xfc and so on", 200, "neither PTX"),
        (b"not a program", raw.INVALID_PTX, "cannot load PTX"),
        (FILL.replace(b"mad.lo.u32", b"frobnicate.u32"), raw.INVALID_PTX, "frobnicate"),
    ],
)
def test_what_cannot_be_loaded_says_why_on_the_log(cuda, capfd, image, code, says):
    assert cuda.code("cuModuleLoadData", byref(c_uint64()), image) == code
    assert says in capfd.readouterr().err


def test_the_error_log_of_the_program_gets_the_text(cuda):
    log = ctypes.create_string_buffer(512)
    options = (c_int * 2)(5, 6)
    values = (c_void_p * 2)(ctypes.addressof(log), 512)
    broken = FILL.replace(b"mad.lo.u32", b"frobnicate.u32")
    code = cuda.code("cuModuleLoadDataEx", byref(c_uint64()), broken, 2, options, values)
    assert code == raw.INVALID_PTX
    assert b"frobnicate" in log.value
    assert values[1] == len(log.value)
    values[1] = 8
    cuda.code("cuModuleLoadDataEx", byref(c_uint64()), broken, 2, options, values)
    assert len(log.value) == 7


def link(cuda, *texts: str) -> bytes:
    state = new_link(cuda)
    for number, text in enumerate(texts):
        data = text.encode()
        cuda.cuLinkAddData_v2(state, 1, data, len(data), f"input {number}".encode(), 0, None, None)
    out, size = c_uint64(), c_size_t()
    cuda.cuLinkComplete(state, byref(out), byref(size))
    image = ctypes.string_at(out.value, size.value)
    cuda.cuLinkDestroy(state)
    return image


def new_link(cuda) -> int:
    out = c_uint64()
    cuda.cuLinkCreate_v2(0, None, None, byref(out))
    return out.value


def test_several_inputs_are_linked_into_one_image(cuda):
    module = cuda.new("cuModuleLoadData", link(cuda, ptx.CALLER, ptx.DOUBLER))
    to = cuda.alloc(4)
    cuda.launch(cuda.kernel(module, "twice"), c_uint64(to), c_uint32(21))
    assert cuda.read(to, 4) == struct.pack("<I", 42)


def test_a_linked_image_can_be_linked_on(cuda):
    first = link(cuda, ptx.DOUBLER)
    state = new_link(cuda)
    cuda.cuLinkAddData_v2(state, 0, first, len(first), b"linked", 0, None, None)
    caller = ptx.CALLER.encode()
    cuda.cuLinkAddData_v2(state, 1, caller, len(caller), None, 0, None, None)
    cuda.cuLinkComplete(state, byref(c_uint64()), None)
    assert (
        cuda.code("cuLinkAddData_v2", state, 1, caller, len(caller), None, 0, None, None) == raw.INVALID_VALUE
    )
    cuda.cuLinkDestroy(state)


@pytest.mark.parametrize(
    "texts", [(ptx.CALLER,), (ptx.DOUBLER, ptx.DOUBLER), ("nonsense",), (ptx.HEADER + ".foo bar;",)]
)
def test_a_link_that_cannot_be_is_refused_when_it_is_linked(cuda, texts):
    with pytest.raises(raw.CudaError) as failed:
        link(cuda, *texts)
    assert failed.value.code == raw.INVALID_PTX


def test_files_are_read_or_not_found(cuda, tmp_path):
    path = tmp_path / "fill.ptx"
    path.write_bytes(FILL)
    module = cuda.new("cuModuleLoad", str(path).encode())
    assert cuda.kernel(module, "fill")
    assert cuda.code("cuModuleLoad", byref(c_uint64()), b"/no/such/file") == raw.FILE_NOT_FOUND
    assert (
        cuda.code("cuLinkAddFile_v2", new_link(cuda), 1, b"/no/such/file", 0, None, None)
        == raw.FILE_NOT_FOUND
    )


NUM_REGS = 4


def registers(cuda, module: int) -> int:
    return cuda.new("cuFuncGetAttribute", NUM_REGS, cuda.kernel(module, "fill"), kind=c_int)


def test_a_limit_of_registers_holds_wherever_it_is_given(cuda):
    """With a load, in the text, and with a link."""
    plain = registers(cuda, cuda.new("cuModuleLoadData", FILL))
    limit = plain - 3
    options, values = (c_int * 1)(0), (c_void_p * 1)(limit)  # CU_JIT_MAX_REGISTERS
    module = c_uint64()
    cuda.cuModuleLoadDataEx(byref(module), FILL, 1, options, values)
    assert registers(cuda, module.value) == limit

    directive = FILL.replace(b"count)\n{", b"count) .maxntid 256 .maxnreg %d\n{" % limit)
    assert directive != FILL
    assert registers(cuda, cuda.new("cuModuleLoadData", directive)) == limit

    state, out, size = c_uint64(), c_uint64(), c_size_t()
    cuda.cuLinkCreate_v2(1, options, values, byref(state))
    cuda.cuLinkAddData_v2(state, 1, FILL, len(FILL), b"fill", 0, None, None)
    cuda.cuLinkComplete(state, byref(out), byref(size))
    container = ctypes.string_at(out.value, size.value)
    assert registers(cuda, cuda.new("cuModuleLoadData", container)) == limit
