"""Loads and stores: every space and width, vectors, windows, and what happens outside."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.softgpu.bench import Device, LaunchError, Status
from tests.softgpu.engine.elementwise import HEAD, compute, integer_edges


def entry(params: str, body: str, module: str = "") -> str:
    registers = ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %rd<32>; .reg .f32 %f<8>;"
    return (
        f"{HEAD}{module}\n.visible .entry k({params}) {{\n{registers}\nmov.u32 %r1, %tid.x;\n{body}\nret;\n}}"
    )


@pytest.mark.parametrize("kind", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("space", ["shared", "local", "generic shared", "generic local", "generic"])
def test_a_value_goes_through_every_space(device: Device, space: str, kind: str) -> None:
    """Written and read back at an address that differs by lane."""
    values = np.tile(integer_edges(kind), 3)
    window = space.split()[-1]
    where = "" if space.startswith("generic") else f".{space}"
    generic = "" if not space.startswith("generic ") else f"cvta.{window}.u64 %rd5, %rd5;"
    declared = {"shared": ".shared .align 8 .b8 room[1024];", "local": ".local .align 8 .b8 room[1024];"}
    if window == "generic":
        place = "ld.param.u64 %rd5, [out];"
        offset = "mul.wide.u32 %rd6, %i, {0};"
    else:
        place = f"{declared[window]} mov.u64 %rd5, room;"
        offset = "mov.u32 %r5, %tid.x; mul.lo.u32 %r5, %r5, 13; and.b32 %r5, %r5, 127;"
        offset += "mul.wide.u32 %rd6, %r5, {0};"
    size = values.dtype.itemsize
    bits = f"b{8 * size}"
    body = f"{place} {offset.format(size)} {generic} add.u64 %rd5, %rd5, %rd6;"
    body += f"st{where}.{bits} [%rd5], %s0; ld{where}.{kind} %d, [%rd5];"
    assert np.array_equal(compute(device, body, kind, (kind,), values), values)


@settings(max_examples=60, deadline=None)
@given(
    addresses=st.lists(st.integers(0, 255), min_size=32, max_size=32),
    active=st.integers(0, (1 << 32) - 1),
    kind=st.sampled_from(["u8", "u16", "u32", "u64"]),
    space=st.sampled_from(["global", "shared", "generic"]),
)
def test_any_pattern_of_addresses_gathers(
    device: Device, addresses: list[int], active: int, kind: str, space: str
) -> None:
    size = int(kind[1:]) // 8
    body = f"""
        .reg .b{max(16, 8 * size)} %v; mov.b{max(16, 8 * size)} %v, 0;
        ld.param.u64 %rd1, [table]; ld.param.u64 %rd2, [where]; ld.param.u64 %rd3, [out];
        mad.wide.u32 %rd4, %r1, 4, %rd2; ld.global.u32 %r2, [%rd4]; mul.wide.u32 %rd5, %r2, {size};
        ld.param.u32 %r3, [active]; shr.u32 %r3, %r3, %r1; and.b32 %r3, %r3, 1; setp.ne.u32 %p1, %r3, 0;"""
    if space == "shared":
        body += """
        mov.u64 %rd6, room; mov.u32 %r4, %r1;
    COPY: mul.wide.u32 %rd7, %r4, 8; add.u64 %rd8, %rd7, %rd1; ld.global.u64 %rd9, [%rd8];
        add.u64 %rd8, %rd7, %rd6;
        st.shared.u64 [%rd8], %rd9; add.u32 %r4, %r4, 32; setp.lt.u32 %p2, %r4, 256; @%p2 bra COPY;
        bar.sync 0; add.u64 %rd5, %rd5, %rd6;"""
    else:
        body += "add.u64 %rd5, %rd5, %rd1;"
    where = "" if space == "generic" else f".{space}"
    body += f"""
        @%p1 ld{where}.{kind} %v, [%rd5];
        mad.wide.u32 %rd3, %r1, {size}, %rd3; st.global.{kind} [%rd3], %v;"""
    text = entry(
        ".param .u64 table, .param .u64 where, .param .u64 out, .param .u32 active",
        body,
        ".shared .b64 room[256];",
    )
    table = np.arange(256 * 8, dtype=np.uint8).view(f"u{size}")
    buffers = [
        device.buffer(table),
        device.buffer(np.array(addresses, np.uint32)),
        device.buffer(np.zeros(32, f"u{size}")),
    ]
    module = device.load(text)
    module(*buffers, active)
    want = [int(table[a]) if active >> lane & 1 else 0 for lane, a in enumerate(addresses)]
    assert buffers[2].get().tolist() == want
    module.unload()
    for buffer in buffers:
        buffer.free()


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("kind", ["u8", "u16", "u32", "f32", "u64"])
@pytest.mark.parametrize("order", ["row", "reversed", "one"])
def test_vectors(device: Device, kind: str, count: int, order: str) -> None:
    size = int(kind[1:]) // 8
    register = f".reg .b{max(16, 8 * size)} %v<4>;"
    parts = ", ".join(f"%v{i}" for i in range(count))
    turned = ", ".join(f"%v{i}" for i in reversed(range(count)))
    index = {"row": "mov.u32 %r2, %r1;", "reversed": "sub.u32 %r2, 31, %r1;", "one": "mov.u32 %r2, 3;"}[order]
    body = f"""{register} {index}
        ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
        mad.wide.u32 %rd1, %r2, {size * count}, %rd1; mad.wide.u32 %rd2, %r1, {size * count}, %rd2;
        ld.global.v{count}.{kind} {{{parts}}}, [%rd1]; st.global.v{count}.{kind} [%rd2], {{{turned}}};"""
    values = np.arange(32 * count * size, dtype=np.uint8).view(f"u{size}").reshape(32, count)
    data, out = device.buffer(values), device.buffer(np.zeros_like(values))
    device.load(entry(".param .u64 out, .param .u64 in", body))(out, data)
    rows = {"row": values, "reversed": values[::-1], "one": np.tile(values[3], (32, 1))}[order]
    assert np.array_equal(out.get(), rows[:, ::-1])


def test_narrow_loads_extend_into_wider_registers(device: Device) -> None:
    values = np.array([0x80, 0x7F, 0xFF, 1], np.uint8)
    body = """
        ld.param.u64 %rd1, [in]; cvt.u64.u32 %rd2, %r1; add.u64 %rd1, %rd1, %rd2;
        ld.global.s8 %r2, [%rd1]; ld.global.u8 %r3, [%rd1]; ld.global.s8 %rd3, [%rd1];
        ld.global.u8 %rd4, [%rd1];
        ld.param.u64 %rd5, [out]; mad.wide.u32 %rd5, %r1, 24, %rd5;
        st.global.u32 [%rd5], %r2; st.global.u32 [%rd5+4], %r3; st.global.u64 [%rd5+8], %rd3;
        st.global.u64 [%rd5+16], %rd4;"""
    out = device.buffer(np.zeros((4, 6), np.uint32))
    device.load(entry(".param .u64 out, .param .u64 in", body))(out, device.buffer(values), block=4)
    got = out.get()
    assert np.array_equal(got[:, 0].view(np.int32), values.view(np.int8))
    assert np.array_equal(got[:, 1], values)
    assert np.array_equal(got[:, 2:4].copy().view(np.int64).ravel(), values.view(np.int8))
    assert np.array_equal(got[:, 4:6].copy().view(np.int64).ravel(), values)


def test_globals_and_constants_with_initialisers(device: Device) -> None:
    module = """
        .visible .global .align 4 .u32 numbers[4] = {1, 2, 0x10, -1};
        .visible .const .align 4 .f32 floats[3] = {0f3F800000, 2.5, -3};
        .visible .global .align 8 .u64 pointer = numbers;
        .global .align 8 .u64 pointers[2] = {generic(numbers)+4, numbers+8};
        .visible .global .align 1 .b8 text[6] = {104, 101, 108, 108, 111, 0};
        .global .align 4 .u32 square[2][2] = {{1, 2}, {3, 4}};"""
    body = """
        ld.param.u64 %rd1, [out]; ld.global.u64 %rd2, [pointer]; ld.global.u32 %r2, [%rd2+12];
        ld.global.u64 %rd3, [pointers]; ld.u32 %r3, [%rd3]; ld.global.u64 %rd3, [pointers+8];
        ld.global.u32 %r4, [%rd3];
        ld.const.f32 %f1, [floats+4]; ld.global.u8 %r5, [text+1]; ld.global.u32 %r6, [square+8];
        mov.u64 %rd4, floats; cvta.const.u64 %rd4, %rd4; ld.f32 %f2, [%rd4+8];
        st.global.v4.u32 [%rd1], {%r2, %r3, %r4, %r5}; st.global.u32 [%rd1+16], %r6;
        st.global.f32 [%rd1+20], %f1; st.global.f32 [%rd1+24], %f2;"""
    out = device.buffer(np.zeros(7, np.uint32))
    loaded = device.load(entry(".param .u64 out", body, module))
    loaded(out, block=1)
    got = out.get()
    assert got[:5].tolist() == [0xFFFFFFFF, 2, 16, 101, 3]
    assert got[5:].view(np.float32).tolist() == [2.5, -3.0]
    address, size = loaded.global_("numbers") or (0, 0)
    assert size == 16
    assert device.read(address, np.zeros(4, np.uint32)).tolist() == [1, 2, 16, 0xFFFFFFFF]
    assert loaded.global_("nothing") is None


def test_modules_have_their_own_globals(device: Device) -> None:
    text = entry(".param .u64 out", "atom.global.add.u32 %r2, [count], 1;", ".visible .global .u32 count;")
    first, second = device.load(text), device.load(text)
    first(0, block=5)
    second(0, block=7)
    places = [module.global_("count") or (0, 0) for module in (first, second)]
    assert [int(device.read(a, np.zeros(1, np.uint32))[0]) for a, _ in places] == [5, 7]


def test_unloading_gives_memory_back(device: Device) -> None:
    before = device.used
    module = device.load(entry("", "", ".visible .global .b8 big[1000000];"))
    assert device.used >= before + 1000000
    module.unload()
    assert device.used == before


STORE = entry(
    ".param .u64 out, .param .u64 offset",
    "ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [offset]; add.u64 %rd1, %rd1, %rd2;\n"
    "mad.wide.u32 %rd3, %r1, 4, %rd1;\nst.global.u32 [%rd3], %r1;",
)


def store(device: Device, address: int, offset: int = 0, block: int = 32) -> None:
    device.load(STORE, names=["store.ptx"])(address, offset, block=block)


def test_a_write_past_the_end_names_everything(device: Device) -> None:
    out = device.buffer(np.zeros(40, np.uint32))
    with pytest.raises(LaunchError) as caught:
        store(device, out.address, block=64)
    assert caught.value.status is Status.ILLEGAL_ADDRESS
    line = STORE.splitlines().index("st.global.u32 [%rd3], %r1;") + 1
    want = (
        r"kernel k, block \(0,0,0\), thread \(40,0,0\): write of 4 bytes out of bounds at 0x[0-9a-f]+; "
        r"the nearest allocation is 0x[0-9a-f]+ of 160 bytes, which ends there; "
        rf"PTX line {line} of store\.ptx"
    )
    assert re.fullmatch(want, caught.value.detail), caught.value.detail
    assert out.get()[:32].tolist() == list(range(32))  # the first warp was inside


@pytest.mark.parametrize("address", [0, 4, 0x1000, 0x7FFF_FFFF_F000, 0xFFFF_8000_0000_0000, (1 << 64) - 128])
def test_wild_pointers_fault(device: Device, address: int) -> None:
    with pytest.raises(LaunchError) as caught:
        store(device, address)
    assert caught.value.status is Status.ILLEGAL_ADDRESS


def test_freed_memory_faults(device: Device) -> None:
    out = device.buffer(np.zeros(32, np.uint32))
    store(device, out.address)
    out.free()
    with pytest.raises(LaunchError, match="out of bounds"):
        store(device, out.address)


def test_a_misaligned_address_faults(device: Device) -> None:
    out = device.buffer(np.zeros(64, np.uint32))
    with pytest.raises(LaunchError, match="no multiple of that") as caught:
        store(device, out.address, 2)
    assert caught.value.status is Status.MISALIGNED_ADDRESS


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (
            "mov.u32 %r2, room; st.shared.u32 [%r2+64], %r1;",
            "offset 64 of the block's 64 bytes of shared memory",
        ),
        ("mov.u64 %rd1, room; cvta.shared.u64 %rd1, %rd1; ld.u32 %r2, [%rd1+-4];", "out of bounds"),
        (".local .b8 mine[16]; mov.u64 %rd1, mine; ld.local.u32 %r2, [%rd1+5000];", "bytes of local memory"),
        ("mov.u64 %rd1, k_param; st.u32 [%rd1], %r1;", "write of 4 bytes out of bounds at offset 0"),
        ("ld.const.u32 %r2, [table+16];", "the nearest is the variable table of 16 bytes, which ends there"),
    ],
)
def test_other_spaces_have_ends_too(device: Device, body: str, what: str) -> None:
    module = ".shared .b8 room[64]; .const .u32 table[4];"
    text = entry(".param .u64 k_param", body + " mov.u32 %r9, room;", module)
    with pytest.raises(LaunchError) as caught:
        device.load(text)(0)
    assert what in caught.value.detail
    assert caught.value.status is Status.ILLEGAL_ADDRESS


def test_only_lanes_that_access_can_fault(device: Device) -> None:
    body = """ld.param.u64 %rd1, [out]; setp.lt.u32 %p1, %r1, 8; mad.wide.u32 %rd2, %r1, 4, %rd1;
        @!%p1 mov.u64 %rd2, 0; @%p1 st.global.u32 [%rd2], %r1;"""
    out = device.buffer(np.zeros(8, np.uint32))
    device.load(entry(".param .u64 out", body))(out)
    assert out.get().tolist() == list(range(8))


def test_lanes_may_use_different_allocations(device: Device) -> None:
    arrays = [device.buffer(np.full(4, i, np.uint32)) for i in range(32)]
    table = device.buffer(np.array([a.address for a in arrays], np.uint64))
    body = """ld.param.u64 %rd1, [table]; mad.wide.u32 %rd1, %r1, 8, %rd1; ld.global.u64 %rd2, [%rd1];
        ld.global.u32 %r2, [%rd2+4]; add.u32 %r2, %r2, 1000; st.global.u32 [%rd2+8], %r2;"""
    device.load(entry(".param .u64 table", body))(table)
    assert [int(a.get()[2]) for a in arrays] == [1000 + i for i in range(32)]


def test_host_memory_is_accessible_while_it_is_mapped(device: Device) -> None:
    host = np.zeros(32, np.uint32)
    address = int(host.ctypes.data)
    with pytest.raises(LaunchError):
        store(device, address)
    assert device.map_host(host)
    assert not device.map_host(host)
    store(device, address)
    assert host.tolist() == list(range(32))
    assert device.unmap_host(host)
    with pytest.raises(LaunchError):
        store(device, address)


def test_spaces_are_told_apart(device: Device) -> None:
    body = """.shared .b32 s; .local .b32 l; mov.u64 %rd1, s; cvta.shared.u64 %rd1, %rd1;
        mov.u64 %rd2, l; cvta.local.u64 %rd2, %rd2;
        isspacep.shared %p1, %rd1; isspacep.local %p2, %rd2; isspacep.global %p3, %rd1;
        isspacep.global %p4, %a; isspacep.shared %p5, %a;
        selp.u32 %r5, 1, 0, %p1; selp.u32 %r6, 2, 0, %p2; selp.u32 %r7, 4, 0, %p3; selp.u32 %r8, 8, 0, %p4;
        selp.u32 %r9, 16, 0, %p5;
        add.u32 %d, %r5, %r6; add.u32 %d, %d, %r7; add.u32 %d, %d, %r8; add.u32 %d, %d, %r9;"""
    assert set(compute(device, body, "u32", ("u32",), np.zeros(4, np.uint32)).tolist()) == {1 + 2 + 8}


def test_allocations_are_exact_zeroed_and_bounded() -> None:
    device = Device(mib=4, threads=1)
    try:
        assert device.allocate(5 << 20) == 0
        assert device.allocate(0) == 0
        assert device.allocate(16, 3) == 0
        first = device.allocate(100)
        assert first % 256 == 0
        assert device.used == 512
        device.write(first, np.full(100, 7, np.uint8))
        assert device.free(first)
        assert not device.free(first)
        assert device.used == 0
        seen = set()
        for _ in range(200):  # an address comes back late, and then clean
            place = device.allocate(100)
            assert place != first
            assert not device.read(place, np.zeros(100, np.uint8)).any()
            seen.add(place)
            assert device.free(place)
        assert len(seen) == 200
        parts = [device.allocate(1 << 20) for _ in range(4)]
        assert all(parts)
        assert device.allocate(1) == 0
        assert device.free(parts[1])
        assert device.allocate(1 << 20) != 0
    finally:
        device.close()


def test_addresses_are_used_again_when_the_range_is_through() -> None:
    device = Device(mib=1024, threads=1)
    try:
        for _ in range(40):
            place = device.allocate(900 << 20)
            assert place
            assert device.free(place)
    finally:
        device.close()
