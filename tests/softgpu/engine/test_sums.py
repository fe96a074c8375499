"""Sums whose old values nobody asks for: they may come late, and nobody may notice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.softgpu.bench import Device, LaunchError, Status
from tests.softgpu.engine.test_blocks import entry

BLOCK, GRID, BINS = 96, 3, 40
THREADS = BLOCK * GRID
WAYS = ("red", "bin", "exchange", "add", "load", "store", "fence", "barrier", "wide")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(WAYS), st.integers(1, 1 << 20)), min_size=2, max_size=16))
def test_a_thread_finds_what_it_has_added(device: Device, steps: list[tuple[str, int]]) -> None:
    """Each thread has a place of its own, and all have bins, in one array: every access to the places is in
    the thread's order, and the bins have all in the end."""
    lines = [
        "ld.param.u64 %rd1, [data]; ld.param.u64 %rd2, [out]; mov.u64 %rd9, 0;",
        f"add.u64 %rd3, %rd1, {8 * BINS}; mad.wide.u32 %rd3, %r4, 8, %rd3; mad.wide.u32 %rd4, %r4, 8, %rd2;",
        "mov.u32 %r9, 0;\nTURN:",
    ]
    place, seen = 0, 0
    bins = np.zeros(BINS, np.uint64)
    thread = np.arange(THREADS)
    mask = 2**64 - 1
    for _ in range(2):
        for kind, value in steps:
            low = place & 0xFFFFFFFF
            if kind == "red":
                place = place & ~0xFFFFFFFF | (low + value) & 0xFFFFFFFF
            elif kind == "wide":
                place = (place + value) & mask
            elif kind == "bin":
                np.add.at(bins, (thread * value) % BINS, np.uint64(value))
            elif kind in ("load", "exchange", "add"):
                seen = (seen * 31 + low) & mask
                if kind == "exchange":
                    place = place & ~0xFFFFFFFF | value
                if kind == "add":
                    place = place & ~0xFFFFFFFF | (low + value) & 0xFFFFFFFF
            elif kind == "store":
                place = place & ~0xFFFFFFFF | value
    see = "cvt.u64.u32 %rd8, %r8; mad.lo.u64 %rd9, %rd9, 31, %rd8;"
    for kind, value in steps:
        lines.append(
            {
                "red": f"red.global.add.u32 [%rd3], {value};",
                "wide": f"red.global.add.u64 [%rd3], {value};",
                "bin": f"mul.lo.u32 %r7, %r4, {value}; rem.u32 %r7, %r7, {BINS}; "
                f"mad.wide.u32 %rd7, %r7, 8, %rd1; atom.global.add.u64 %rd10, [%rd7], {value};",
                "load": f"ld.global.u32 %r8, [%rd3]; {see}",
                "exchange": f"atom.exch.b32 %r8, [%rd3], {value}; {see}",
                "add": f"atom.add.u32 %r8, [%rd3], {value}; {see}",
                "store": f"st.u32 [%rd3], {value};",
                "fence": "membar.gl;",
                "barrier": "bar.sync 0;",
            }[kind]
        )
    lines.append("add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 2; @%p1 bra TURN; st.global.u64 [%rd4], %rd9;")
    data = device.buffer(np.zeros(BINS + THREADS, np.uint64))
    out = device.buffer(np.zeros(THREADS, np.uint64))
    module = device.load(entry(".param .u64 data, .param .u64 out", "\n".join(lines)))
    module(data, out, grid=GRID, block=BLOCK)
    assert out.get().tolist() == [seen] * THREADS
    assert np.array_equal(data.get()[:BINS], bins)
    assert data.get()[BINS:].tolist() == [place] * THREADS
    module.unload()
    data.free()
    out.free()


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize(
    ("start", "status"),
    [
        (0, None),
        (1, Status.ILLEGAL_ADDRESS),
        (-1, Status.ILLEGAL_ADDRESS),
        (-(2**40), Status.ILLEGAL_ADDRESS),
    ],
)
def test_sums_are_held_to_their_array(device: Device, width: int, start: int, status: Status | None) -> None:
    """Many that are right, so that sums are gathered, and then one lane's beyond an end."""
    text = entry(
        ".param .u64 data, .param .s64 away",
        f"""ld.param.u64 %rd1, [data]; ld.param.u64 %rd2, [away]; mov.u32 %r9, 0;
        mul.lo.u32 %r5, %r1, 7; rem.u32 %r5, %r5, 63; mad.wide.u32 %rd3, %r5, {width}, %rd1;
    TURN: red.global.add.u{8 * width} [%rd3], 1;
        setp.eq.u32 %p1, %r9, 5; setp.eq.and.u32 %p2, %r1, 37, %p1; @!%p2 bra PAST;
        setp.gt.s64 %p3, %rd2, 0; selp.u64 %rd4, {62 * width}, 0, %p3;
        mul.lo.s64 %rd5, %rd2, {width}; add.s64 %rd4, %rd4, %rd5; add.s64 %rd3, %rd1, %rd4;
    PAST: add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, 10; @%p3 bra TURN;""",
    )
    # An array before it that ends within its granule: what is just below belongs to nobody.
    _below, data = (device.buffer(np.zeros(63, np.uint32 if width == 4 else np.uint64)) for _ in range(2))
    module = device.load(text)
    if status is None:
        module(data, start, block=64)
        assert data.get().sum() == 640
        return
    with pytest.raises(LaunchError, match=r"thread \(37,0,0\)") as caught:
        module(data, start, block=64)
    assert caught.value.status is status


def test_an_addition_between_two_elements_is_refused(device: Device) -> None:
    text = entry(
        ".param .u64 data",
        """ld.param.u64 %rd1, [data]; mad.wide.u32 %rd2, %r1, 4, %rd1; mov.u32 %r9, 0;
    TURN: red.global.add.u32 [%rd2], 1; setp.eq.u32 %p1, %r1, 5; selp.u64 %rd3, 2, 0, %p1;
        xor.b32 %r10, %r1, 1; mad.wide.u32 %rd2, %r10, 4, %rd1; add.u64 %rd2, %rd2, %rd3;
        add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 2; @%p2 bra TURN;""",
    )
    data = device.buffer(np.zeros(64, np.uint32))
    with pytest.raises(LaunchError) as caught:
        device.load(text)(data, block=32)
    assert caught.value.status is Status.MISALIGNED_ADDRESS


@pytest.mark.parametrize(
    "tell",
    [
        "membar.gl; bar.sync 0; st.volatile.global.u32 [%rd2], %r8;",
        "bar.sync 0; st.release.gpu.global.u32 [%rd2], %r8;",
        "bar.sync 0; red.release.gpu.global.add.u32 [%rd2], %r8;",
        "bar.sync 0; atom.acq_rel.gpu.global.or.b32 %r7, [%rd2], %r8;",
    ],
)
def test_who_is_told_of_sums_finds_them(device: Device, tell: str) -> None:
    """Every even block adds and tells the odd one after it, which looks."""
    pairs, bins = 40, 32
    text = entry(
        ".param .u64 data, .param .u64 flags, .param .u64 out",
        f"""ld.param.u64 %rd1, [data]; ld.param.u64 %rd2, [flags]; ld.param.u64 %rd3, [out]; mov.u32 %r8, 1;
        shr.u32 %r5, %r3, 1; mul.wide.u32 %rd4, %r5, 512; add.u64 %rd2, %rd2, %rd4;
        mul.lo.u32 %r6, %r5, {bins}; and.b32 %r9, %r1, {bins - 1}; add.u32 %r6, %r6, %r9;
        mad.wide.u32 %rd1, %r6, 4, %rd1; mad.wide.u32 %rd3, %r6, 4, %rd3;
        and.b32 %r10, %r3, 1; setp.ne.u32 %p1, %r10, 0; @%p1 bra ODD;
        mov.u32 %r11, 0;
    ADD: red.global.add.u32 [%rd1], %r1; add.u32 %r11, %r11, 1; setp.lt.u32 %p3, %r11, 8; @%p3 bra ADD;
        {tell}
        bra END;
    ODD: ld.acquire.gpu.global.u32 %r7, [%rd2]; setp.eq.u32 %p2, %r7, 0; @%p2 bra ODD;
        ld.global.u32 %r12, [%rd1]; st.global.u32 [%rd3], %r12;
    END:""",
    )
    data, out = (device.buffer(np.zeros(pairs * bins, np.uint32)) for _ in range(2))
    flags = device.buffer(np.zeros(pairs * 128, np.uint32))
    device.load(text)(data, flags, out, grid=2 * pairs, block=64)
    expected = 8 * (2 * np.arange(bins) + 32)
    assert np.array_equal(out.get().reshape(pairs, bins), np.tile(expected, (pairs, 1)))
