"""Warps of a block that run in step: what they do must be what each would do alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.softgpu.bench import Device, LaunchError, Status
from tests.softgpu.engine.test_blocks import entry

STEPS = 25
THREADS = 10 * 32 - 5  # more warps than a gang has, and the last of them not full


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_program_of_branches_runs_each_warp_as_if_alone(device: Device, data: st.DataObject) -> None:
    """A random graph of branches in which whole warps or single lanes part; NumPy follows each thread."""
    count = data.draw(st.integers(2, 8))
    blocks = [
        (
            data.draw(st.sampled_from([0, 1, 4, 5, 6, 7, 8])),  # the bit of thread and step that decides
            data.draw(st.integers(0, count)),
            data.draw(st.integers(0, count)),
            data.draw(st.integers(1, 1 << 16)),
        )
        for _ in range(count)
    ]
    lines = ["ld.param.u64 %rd1, [out]; mad.wide.u32 %rd2, %r4, 4, %rd1; mov.u32 %r9, 0; mov.u32 %r20, 0;"]
    for number, (bit, taken, other, factor) in enumerate(blocks):
        names = [f"B{to}" if to < count else "DONE" for to in (taken, other)]
        lines.append(f"""
    B{number}: add.u32 %r9, %r9, 1; setp.gt.u32 %p1, %r9, {STEPS}; @%p1 bra DONE;
        mad.lo.u32 %r20, %r20, 31, {factor}; mad.lo.u32 %r10, %r9, 37, %r1; shr.u32 %r10, %r10, {bit};
        and.b32 %r10, %r10, 1; setp.ne.u32 %p2, %r10, 0; @%p2 bra {names[0]}; bra {names[1]};""")
    lines.append("DONE: st.global.u32 [%rd2], %r20;")
    out = device.buffer(np.zeros(THREADS, np.uint32))
    module = device.load(entry(".param .u64 out", "\n".join(lines)))
    module(out, block=THREADS)

    thread = np.arange(THREADS, dtype=np.uint32)
    value, at = np.zeros(THREADS, np.uint32), np.zeros(THREADS, int)
    for step in range(1, STEPS + 1):
        before = at.copy()
        for number, (bit, taken, other, factor) in enumerate(blocks):
            here = before == number
            value[here] = value[here] * np.uint32(31) + np.uint32(factor)
            at[here] = np.where((step * 37 + thread[here]) >> bit & 1, taken, other)
    assert np.array_equal(out.get(), value)
    module.unload()
    out.free()


@pytest.mark.parametrize("last_first", [False, True])
def test_a_warp_may_wait_for_any_other_warp_of_its_block(device: Device, last_first: bool) -> None:
    """Warps pass a token on, upwards or downwards, by a loop in which all who have it not yet spin."""
    mine = "mov.u32 %r6, 7; sub.u32 %r5, %r6, %r5;" if last_first else ""
    text = entry(
        ".param .u64 out",
        f"""ld.param.u64 %rd1, [out]; shr.u32 %r5, %r1, 5; {mine}
    WAIT: ld.volatile.global.u32 %r7, [%rd1]; setp.ne.u32 %p1, %r7, %r5; @%p1 bra WAIT;
        bar.warp.sync -1; and.b32 %r8, %r1, 31; setp.ne.u32 %p2, %r8, 0; @%p2 bra END;
        add.u32 %r9, %r5, 1; st.volatile.global.u32 [%rd1], %r9;
    END:""",
    )
    out = device.buffer(np.zeros(1, np.uint32))
    device.load(text)(out, block=256)
    assert out.get()[0] == 8


def test_rows_are_held_to_the_allocation_that_an_earlier_block_has_met(device: Device) -> None:
    text = entry(
        ".param .u64 in",
        "ld.param.u64 %rd1, [in]; mad.wide.u32 %rd2, %r4, 4, %rd1; ld.global.u32 %r5, [%rd2]; "
        "st.global.u32 [%rd2], %r5;",
    )
    values = device.buffer(np.zeros(3 * 128 + 100, np.uint32))
    module = device.load(text)
    module(values, grid=3, block=128)
    with pytest.raises(LaunchError, match=r"thread \(100,0,0\)") as caught:
        module(values, grid=4, block=128)
    assert caught.value.status is Status.ILLEGAL_ADDRESS


def test_blocks_that_a_thread_has_taken_together_may_wait_for_each_other(device: Device) -> None:
    """Every even block waits for the odd one after it."""
    text = entry(
        ".param .u64 out",
        """ld.param.u64 %rd1, [out]; shr.u32 %r5, %r3, 1; mad.wide.u32 %rd2, %r5, 4, %rd1;
        and.b32 %r6, %r3, 1; setp.ne.u32 %p1, %r6, 0; @%p1 bra ODD;
    WAIT: ld.acquire.gpu.global.u32 %r7, [%rd2]; setp.eq.u32 %p2, %r7, 0; @%p2 bra WAIT; bra END;
    ODD: mov.u32 %r8, 1; st.release.gpu.global.u32 [%rd2], %r8;
    END:""",
    )
    out = device.buffer(np.zeros(300, np.uint32))
    device.load(text)(out, grid=600, block=64)
    assert out.get().tolist() == [1] * 300
