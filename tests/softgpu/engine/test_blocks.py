"""Blocks and grids: barriers, shared memory, atomics across threads, and the classic kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.softgpu.bench import Device, LaunchError, Status
from tests.softgpu.engine.elementwise import HEAD

PRELUDE = """.reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %rd<32>; .reg .f32 %f<32>; .reg .f64 %fd<8>;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r4, %r3, %r2, %r1;"""


def entry(params: str, body: str, module: str = "") -> str:
    return f"{HEAD}{module}\n.visible .entry k({params}) {{\n{PRELUDE}\n{body}\nret;\n}}"


def test_three_dimensions_of_blocks_and_threads(device: Device) -> None:
    text = entry(
        ".param .u64 out",
        """
        mov.u32 %r10, %tid.x; mov.u32 %r11, %tid.y; mov.u32 %r12, %tid.z;
        mov.u32 %r13, %ntid.x; mov.u32 %r14, %ntid.y; mov.u32 %r15, %ntid.z;
        mov.u32 %r16, %ctaid.x; mov.u32 %r17, %ctaid.y; mov.u32 %r18, %ctaid.z;
        mov.u32 %r19, %nctaid.x; mov.u32 %r20, %nctaid.y;
        mad.lo.u32 %r21, %r18, %r20, %r17; mad.lo.u32 %r21, %r21, %r19, %r16;
        mad.lo.u32 %r22, %r12, %r14, %r11; mad.lo.u32 %r22, %r22, %r13, %r10;
        mul.lo.u32 %r23, %r13, %r14; mul.lo.u32 %r23, %r23, %r15;
        mad.lo.u32 %r24, %r21, %r23, %r22;
        ld.param.u64 %rd1, [out]; mad.wide.u32 %rd2, %r24, 4, %rd1;
        atom.global.add.u32 %r25, [%rd2], 1;""",
    )
    out = device.buffer(np.zeros(3 * 2 * 4 * 5 * 7 * 2, np.uint32))
    device.load(text)(out, grid=(3, 2, 4), block=(5, 7, 2))
    assert out.get().tolist() == [1] * (3 * 2 * 4 * 5 * 7 * 2)


REDUCTION = entry(
    ".param .u64 out, .param .u64 in",
    """
    ld.param.u64 %rd1, [in]; mad.wide.u32 %rd2, %r4, 4, %rd1; ld.global.u32 %r5, [%rd2];
    shl.b32 %r6, %r1, 2; mov.u32 %r7, tile; add.u32 %r6, %r6, %r7; st.shared.u32 [%r6], %r5;
    shr.u32 %r8, %r2, 1;
LOOP:
    bar.sync 0;
    setp.ge.u32 %p1, %r1, %r8; @%p1 bra SKIP;
    shl.b32 %r9, %r8, 2; add.u32 %r9, %r9, %r6; ld.shared.u32 %r10, [%r9]; ld.shared.u32 %r11, [%r6];
    add.u32 %r11, %r11, %r10; st.shared.u32 [%r6], %r11;
SKIP:
    shr.u32 %r8, %r8, 1; setp.ne.u32 %p2, %r8, 0; @%p2 bra LOOP;
    setp.ne.u32 %p3, %r1, 0; @%p3 bra END;
    ld.shared.u32 %r12, [tile]; ld.param.u64 %rd3, [out]; red.global.add.u32 [%rd3], %r12;
END:""",
    ".shared .align 4 .b8 tile[4096];",
)


@pytest.mark.parametrize("block", [32, 64, 256, 1024])
def test_tree_reduction_with_a_barrier_in_a_loop(device: Device, block: int) -> None:
    values = np.random.default_rng(block).integers(0, 1000, 4096).astype(np.uint32)
    out, data = device.buffer(np.zeros(1, np.uint32)), device.buffer(values)
    device.load(REDUCTION)(out, data, grid=4096 // block, block=block)
    assert out.get()[0] == values.sum()


def test_dynamic_shared_memory_comes_after_the_static(device: Device) -> None:
    text = entry(
        ".param .u64 out",
        """
        mov.u64 %rd1, fixed; mov.u64 %rd2, dynamic; sub.u64 %rd3, %rd2, %rd1; cvt.u32.u64 %r10, %rd3;
        mul.wide.u32 %rd4, %r1, 4; add.u64 %rd5, %rd4, %rd2; st.shared.u32 [%rd5], %r1; bar.sync 0;
        sub.u32 %r11, %r2, 1; sub.u32 %r11, %r11, %r1; mul.wide.u32 %rd6, %r11, 4; add.u64 %rd6, %rd6, %rd2;
        ld.shared.u32 %r12, [%rd6]; mov.u32 %r13, %dynamic_smem_size; add.u32 %r12, %r12, %r13;
        ld.param.u64 %rd7, [out]; add.u64 %rd7, %rd7, %rd4; st.global.u32 [%rd7], %r12;
        setp.eq.u32 %p1, %r1, 0; @%p1 st.global.u32 [%rd7+256], %r10;""",
        ".shared .align 4 .b8 fixed[20]; .extern .shared .align 16 .b8 dynamic[];",
    )
    out = device.buffer(np.zeros(65, np.uint32))
    module = device.load(text)
    module(out, block=64, shared=256)
    assert out.get()[:64].tolist() == [63 - i + 256 for i in range(64)]
    assert out.get()[64] == 32
    assert module.info().shared_bytes == 20


def test_barrier_reductions(device: Device) -> None:
    text = entry(
        ".param .u64 out",
        """
        and.b32 %r5, %r1, 1; setp.ne.u32 %p1, %r5, 0; setp.lt.u32 %p2, %r1, 1000;
        bar.red.popc.u32 %r6, 0, %p1; bar.red.and.pred %p3, 0, %p1; bar.red.or.pred %p4, 0, %p1;
        barrier.red.and.pred %p5, 1, !%p2;
        selp.u32 %r7, 1000, 0, %p3; selp.u32 %r8, 2000, 0, %p4; selp.u32 %r9, 4000, 0, %p5;
        add.u32 %r6, %r6, %r7; add.u32 %r6, %r6, %r8; add.u32 %r6, %r6, %r9;
        ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r4, 4, %rd1; st.global.u32 [%rd1], %r6;""",
    )
    out = device.buffer(np.zeros(100, np.uint32))
    device.load(text)(out, block=100)
    assert set(out.get().tolist()) == {2050}


def test_named_barriers_between_some_of_the_warps(device: Device) -> None:
    """Two warps produce with bar.arrive, two consume with bar.sync; the count is of both."""
    text = entry(
        ".param .u64 out",
        """
        setp.lt.u32 %p1, %r1, 64; @%p1 bra PRODUCE;
        bar.sync 3, 128; sub.u32 %r5, %r1, 64; shl.b32 %r5, %r5, 2; ld.shared.u32 %r6, [%r5];
        ld.param.u64 %rd1, [out]; cvt.u64.u32 %rd2, %r5; add.u64 %rd1, %rd1, %rd2;
        st.global.u32 [%rd1], %r6; bra END;
    PRODUCE:
        shl.b32 %r5, %r1, 2; mul.lo.u32 %r6, %r1, 7; st.shared.u32 [%r5], %r6; bar.arrive 3, 128;
    END:""",
        ".shared .align 4 .b8 room[256];",
    ).replace("mov.u32 %r1, %tid.x;", "mov.u32 %r1, %tid.x; .reg .b32 %unused; mov.u32 %unused, room;", 1)
    out = device.buffer(np.zeros(64, np.uint32))
    device.load(text)(out, block=128)
    assert out.get().tolist() == [7 * i for i in range(64)]


def test_a_barrier_that_some_threads_miss_is_reported(device: Device) -> None:
    text = entry("", "setp.lt.u32 %p1, %r1, 32; @%p1 bra SPIN; bar.sync 0; bra END; SPIN: bar.sync 1; END:")
    with pytest.raises(LaunchError, match="barrier that other threads of the block never reach") as caught:
        device.load(text)(block=64)
    assert caught.value.status is Status.DEADLOCK


def test_threads_that_have_exited_do_not_hold_up_a_barrier(device: Device) -> None:
    text = entry(
        ".param .u64 out",
        """setp.ge.u32 %p1, %r1, 40; @%p1 exit; bar.sync 0;
        ld.param.u64 %rd1, [out]; red.global.add.u32 [%rd1], 1;""",
    )
    out = device.buffer(np.zeros(1, np.uint32))
    device.load(text)(out, block=128)
    assert out.get()[0] == 40


def test_histogram_with_shared_and_global_atomics(device: Device) -> None:
    text = entry(
        ".param .u64 out, .param .u64 in",
        """
        shl.b32 %r5, %r1, 2; mov.u32 %r6, bins; add.u32 %r7, %r5, %r6; st.shared.u32 [%r7], 0; bar.sync 0;
        ld.param.u64 %rd1, [in]; cvt.u64.u32 %rd2, %r4; add.u64 %rd1, %rd1, %rd2; ld.global.u8 %r8, [%rd1];
        shl.b32 %r9, %r8, 2; add.u32 %r9, %r9, %r6; atom.shared.add.u32 %r10, [%r9], 1; bar.sync 0;
        ld.shared.u32 %r11, [%r7]; ld.param.u64 %rd3, [out]; mul.wide.u32 %rd4, %r1, 4;
        add.u64 %rd3, %rd3, %rd4;
        red.global.add.u32 [%rd3], %r11;""",
        ".shared .align 4 .b8 bins[1024];",
    )
    values = np.random.default_rng(9).integers(0, 256, 256 * 64).astype(np.uint8)
    out, data = device.buffer(np.zeros(256, np.uint32)), device.buffer(values)
    device.load(text)(out, data, grid=64, block=256)
    assert np.array_equal(out.get(), np.bincount(values, minlength=256))


ATOMICS = [
    ("add.u32", np.uint32, 5, lambda v: 5 + int(v.sum())),
    ("add.u64", np.uint64, 5, lambda v: 5 + int(v.sum())),
    ("add.f32", np.float32, 0, lambda v: float(v.sum())),
    ("add.f64", np.float64, 0, lambda v: float(v.sum())),
    ("min.s32", np.int32, 50, lambda v: min(50, int(v.min()))),
    ("max.s32", np.int32, 50, lambda v: max(50, int(v.max()))),
    ("min.u64", np.uint64, 50, lambda v: min(50, int(v.min()))),
    ("max.s64", np.int64, 50, lambda v: max(50, int(v.max()))),
    ("and.b32", np.uint32, 0xFFFF, lambda v: 0xFFFF & int(np.bitwise_and.reduce(v))),
    ("or.b32", np.uint32, 0, lambda v: int(np.bitwise_or.reduce(v))),
    ("xor.b64", np.uint64, 1, lambda v: 1 ^ int(np.bitwise_xor.reduce(v))),
]


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
@pytest.mark.parametrize("case", ATOMICS, ids=lambda case: case[0])
def test_atomics_of_all_threads_add_up(device: Device, case: tuple, space: str) -> None:
    name, dtype, start, function = case
    kind, size = name.split(".")[1], np.dtype(dtype).itemsize
    bits = f"b{8 * size}"
    where = "" if space == "generic" else f".{space}"
    place = "%rd4" if space == "global" else "%rd6"
    # In shared memory every block works on a copy, which its first thread puts out.
    back = f"bar.sync 0; @%p1 bra END; ld.shared.{bits} %w, [cell]; st.global.{bits} [%rd4], %w;"
    back = "" if space == "global" else back
    text = entry(
        ".param .u64 out, .param .u64 in",
        f"""
        .reg .{bits} %v, %w;
        ld.param.u64 %rd1, [in]; mad.wide.u32 %rd2, %r4, {size}, %rd1; ld.global.{bits} %v, [%rd2];
        ld.param.u64 %rd4, [out]; mov.u64 %rd6, cell;
        {"cvta.shared.u64 %rd6, %rd6;" if space == "generic" else ""}
        setp.ne.u32 %p1, %r1, 0; ld.global.{bits} %w, [%rd4]; bar.sync 0;
        {"" if space == "global" else f"@!%p1 st.shared.{bits} [cell], %w; bar.sync 0;"}
        atom{where}.{name} %w, [{place}], %v;
        red{where}.{name} [{place}], {identity(name)};
        {back}
    END:""",
        ".shared .align 8 .b8 cell[8];",
    )
    count = 8 * 64 if space == "global" else 64
    values = np.random.default_rng(11).integers(1, 100, count).astype(dtype)
    out, data = device.buffer(np.array([start], dtype)), device.buffer(values)
    device.load(text)(out, data, grid=count // 64, block=64)
    assert out.get()[0] == function(values), kind


def identity(name: str) -> str:
    """What leaves the value as it is, so that red runs too without changing the sum."""
    if name.startswith("add.f"):
        return "0f00000000" if name == "add.f32" else "0d0000000000000000"
    least = {"s32": -(1 << 31), "s64": -(1 << 63)}
    most = {"s32": (1 << 31) - 1, "u64": (1 << 64) - 1}
    kind = name.split(".")[1]
    special = {"and": -1, "min": most.get(kind, 0), "max": least.get(kind, 0)}
    return str(special.get(name.split(".")[0], 0))


def test_counters_wrap_and_exchange_gives_the_old_value(device: Device) -> None:
    text = entry(
        ".param .u64 out",
        """ld.param.u64 %rd1, [out];
        atom.global.inc.u32 %r5, [%rd1], 9; atom.global.dec.u32 %r6, [%rd1+4], 9;
        atom.global.exch.b32 %r7, [%rd1+8], %r1;
        mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2+16], %r5; st.global.u32 [%rd2+144], %r6;
        atom.global.add.u32 %r8, [%rd1+12], %r7;""",
    )
    out = device.buffer(np.zeros(68, np.uint32))
    device.load(text)(out, block=32)
    got = out.get()
    assert got[0] == 2
    assert sorted(got[4:36].tolist()) == sorted(i % 10 for i in range(32))
    assert got[1] == 8
    assert sorted(got[36:68].tolist()) == sorted(-i % 10 for i in range(32))
    assert got[2] + got[3] == 31 * 16  # what is there and what was given back make the whole


def test_blocks_may_wait_for_blocks_that_start_later(device: Device) -> None:
    """A barrier of the grid made by hand: all blocks must be under way at the same time."""
    text = entry(
        ".param .u64 out",
        """ld.param.u64 %rd1, [out]; mov.u32 %r5, %nctaid.x;
        setp.ne.u32 %p1, %r1, 0; @%p1 bra MEET; atom.global.add.u32 %r6, [%rd1], 1;
    WAIT: ld.acquire.gpu.global.u32 %r7, [%rd1]; setp.lt.u32 %p2, %r7, %r5; @%p2 bra WAIT;
    MEET: bar.sync 0; red.global.add.u32 [%rd1+4], 1;""",
    )
    out = device.buffer(np.zeros(2, np.uint32))
    device.load(text)(out, grid=6, block=64)
    assert out.get().tolist() == [6, 6 * 64]


def test_an_endless_kernel_can_be_cancelled(device: Device) -> None:
    import threading

    text = entry(".param .u64 out", "ld.param.u64 %rd1, [out]; st.global.u32 [%rd1], 1; LOOP: bra.uni LOOP;")
    started = np.zeros(1024, np.uint32)
    assert device.map_host(started)
    module = device.load(text)
    caught: list[LaunchError] = []

    def launch() -> None:
        try:
            module(int(started.ctypes.data), block=32)
        except LaunchError as error:
            caught.append(error)

    thread = threading.Thread(target=launch)
    thread.start()
    while not started[0]:
        thread.join(0.001)
    device.cancel()
    thread.join(60)
    device.cancel(False)
    device.unmap_host(started)
    assert caught
    assert caught[0].status is Status.CANCELLED


def test_tiled_matrix_product(device: Device) -> None:
    body = """
    .reg .b32 %x, %y, %row, %col, %n, %t, %steps;
    mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; mov.u32 %r5, %ctaid.x; mov.u32 %r6, %ctaid.y;
    mad.lo.u32 %col, %r5, 16, %x; mad.lo.u32 %row, %r6, 16, %y;
    ld.param.u32 %n, [n]; shr.u32 %steps, %n, 4; mov.u32 %t, 0; mov.f32 %f1, 0f00000000;
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c];
    mad.lo.u32 %r7, %y, 16, %x; shl.b32 %r7, %r7, 2; mov.u32 %r8, ta; mov.u32 %r9, tb;
    add.u32 %r10, %r7, %r8; add.u32 %r11, %r7, %r9; shl.b32 %r12, %y, 6; add.u32 %r12, %r12, %r8;
    shl.b32 %r13, %x, 2; add.u32 %r13, %r13, %r9;
STEP:
    shl.b32 %r20, %t, 4; add.u32 %r21, %r20, %x; mad.lo.u32 %r21, %row, %n, %r21;
    mad.wide.u32 %rd4, %r21, 4, %rd1; ld.global.f32 %f2, [%rd4]; st.shared.f32 [%r10], %f2;
    add.u32 %r22, %r20, %y; mad.lo.u32 %r22, %r22, %n, %col;
    mad.wide.u32 %rd5, %r22, 4, %rd2; ld.global.nc.f32 %f3, [%rd5]; st.shared.f32 [%r11], %f3;
    bar.sync 0;
    """
    body += "".join(
        f"ld.shared.f32 %f4, [%r12+{4 * k}]; ld.shared.f32 %f5, [%r13+{64 * k}];"
        "fma.rn.f32 %f1, %f4, %f5, %f1;\n"
        for k in range(16)
    )
    body += """
    bar.sync 0; add.u32 %t, %t, 1; setp.lt.u32 %p1, %t, %steps; @%p1 bra STEP;
    mad.lo.u32 %r23, %row, %n, %col; mad.wide.u32 %rd6, %r23, 4, %rd3; st.global.f32 [%rd6], %f1;"""
    text = entry(
        ".param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n",
        body,
        ".shared .align 4 .b8 ta[1024]; .shared .align 4 .b8 tb[1024];",
    )
    n = 64
    a, b = np.random.default_rng(0).random((2, n, n)).astype(np.float32)
    out = device.buffer(np.zeros((n, n), np.float32))
    device.load(text)(device.buffer(a), device.buffer(b), out, n, grid=(n // 16, n // 16), block=(16, 16))
    assert np.allclose(out.get(), a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5)


def test_monte_carlo_pi(device: Device) -> None:
    """xorshift in every thread, a loop of draws, one atomic at the end; the same numbers in NumPy."""
    text = entry(
        ".param .u64 out, .param .u32 draws",
        """
    mad.lo.u32 %r10, %r4, 2654435761, 12345; mov.u32 %r11, 0; ld.param.u32 %r12, [draws]; mov.u32 %r13, 0;
LOOP:
    shl.b32 %r14, %r10, 13; xor.b32 %r10, %r10, %r14; shr.u32 %r14, %r10, 17; xor.b32 %r10, %r10, %r14;
    shl.b32 %r14, %r10, 5; xor.b32 %r10, %r10, %r14; cvt.rn.f32.u32 %f1, %r10; mul.f32 %f1, %f1, 0f2F800000;
    shl.b32 %r14, %r10, 13; xor.b32 %r10, %r10, %r14; shr.u32 %r14, %r10, 17; xor.b32 %r10, %r10, %r14;
    shl.b32 %r14, %r10, 5; xor.b32 %r10, %r10, %r14; cvt.rn.f32.u32 %f2, %r10; mul.f32 %f2, %f2, 0f2F800000;
    mul.f32 %f3, %f2, %f2; fma.rn.f32 %f3, %f1, %f1, %f3; setp.gtu.f32 %p1, %f3, 0f3F800000;
    @%p1 bra MISS; add.u32 %r11, %r11, 1;
MISS:
    add.u32 %r13, %r13, 1; setp.lt.u32 %p2, %r13, %r12; @%p2 bra LOOP;
    ld.param.u64 %rd1, [out]; red.global.add.u32 [%rd1], %r11;""",
    )
    threads, draws = 2048, 64
    out = device.buffer(np.zeros(1, np.uint32))
    device.load(text)(out, draws, grid=threads // 128, block=128)
    state = np.arange(threads, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(12345)
    hits = 0

    def draw() -> np.ndarray:
        nonlocal state
        for shift, left in ((13, True), (17, False), (5, True)):
            state = state ^ (state << np.uint32(shift) if left else state >> np.uint32(shift))
        return (state.astype(np.float32) * np.float32(2.0**-32)).astype(np.float64)

    for _ in range(draws):
        x, y = draw(), draw()
        hits += int((x * x + (y * y).astype(np.float32) <= 1.0).sum())
    assert abs(int(out.get()[0]) - hits) <= 4  # the order of roundings differs at the circle's edge
