"""Blocks of a cooperative launch that wait for each other, and what a kernel learns of its grid."""

from __future__ import annotations

import numpy as np
import pytest

from tests.softgpu.bench import Device, LaunchError, Status
from tests.softgpu.engine.elementwise import HEAD

# What nvcc 13 makes of cooperative_groups::this_grid().sync(): the workspace's address is in two environment
# registers, and its second word is counted up by each block, with the top bit turned over by the last.
SYNC = """
    bar.sync 0;
    @%elsewhere bra MET{0};
    atom.add.release.gpu.u32 %old, [%workspace+4], %step;
WAIT{0}:
    ld.acquire.gpu.u32 %now, [%workspace+4];
    xor.b32 %now, %now, %old;
    setp.gt.s32 %p1, %now, -1;
    @%p1 bra WAIT{0};
MET{0}:
    bar.sync 0;
"""

KERNEL = f"""{HEAD}
.visible .entry k(.param .u64 values, .param .u32 rounds) {{
    .reg .pred %p<8>, %elsewhere; .reg .b32 %r<16>, %old, %now, %step; .reg .b64 %rd<8>, %workspace;
    mov.u32 %r0, %envreg1; mov.u32 %r1, %envreg2; mov.b64 %workspace, {{%r1, %r0}};
    setp.eq.s64 %p0, %workspace, 0; @%p0 trap;
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %nctaid.x; mov.u32 %r4, %tid.x; mov.u32 %r5, %ntid.x;
    setp.ne.u32 %elsewhere, %r4, 0;
    sub.s32 %step, -2147483647, %r3; setp.ne.u32 %p2, %r2, 0; @%p2 mov.u32 %step, 1;
    mad.lo.u32 %r6, %r2, %r5, %r4; mul.lo.u32 %r7, %r3, %r5;
    add.u32 %r8, %r6, 1; rem.u32 %r8, %r8, %r7;
    ld.param.u64 %rd1, [values]; mad.wide.u32 %rd2, %r6, 4, %rd1; mad.wide.u32 %rd3, %r8, 4, %rd1;
    ld.param.u32 %r9, [rounds];
AGAIN:
    ld.global.u32 %r10, [%rd2]; ld.global.u32 %r11, [%rd3]; add.u32 %r10, %r10, %r11;
    {SYNC.format(0)}
    st.global.u32 [%rd2], %r10;
    {SYNC.format(1)}
    sub.u32 %r9, %r9, 1; setp.ne.u32 %p3, %r9, 0; @%p3 bra AGAIN;
    ret;
}}"""


@pytest.mark.parametrize(("grid", "block"), [(1, 32), (2, 64), (32, 33), (7, 256)])
def test_all_blocks_of_a_cooperative_launch_meet(device: Device, grid: int, block: int) -> None:
    start = np.arange(grid * block, dtype=np.uint32)
    values, rounds = device.buffer(start), 5
    module = device.load(KERNEL)
    with device.cooperative():
        module(values, rounds, grid=grid, block=block)
    want = start
    for _ in range(rounds):
        want = want + np.roll(want, -1)
    assert np.array_equal(values.get(), want)


def test_a_plain_launch_has_no_workspace_to_meet_at(device: Device) -> None:
    values = device.buffer(np.zeros(64, np.uint32))
    with pytest.raises(LaunchError, match="trap") as caught:
        device.load(KERNEL)(values, 1, grid=2, block=32)
    assert caught.value.status is Status.TRAP


def test_blocks_know_how_many_threads_of_the_host_serve_them(device: Device) -> None:
    text = f"""{HEAD}
.visible .entry k(.param .u64 out) {{
    .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p1;
    ld.param.u64 %rd1, [out]; mov.u32 %r0, %ctaid.x; mad.wide.u32 %rd1, %r0, 8, %rd1;
    mov.u32 %r1, %smid; mov.u32 %r2, %nsmid; st.global.v2.u32 [%rd1], {{%r1, %r2}}; ret;
}}"""
    out = device.buffer(np.zeros((64, 2), np.uint32))
    device.load(text)(out, grid=64, block=1)
    got = out.get()
    assert set(got[:, 1].tolist()) == {2}
    assert set(got[:, 0].tolist()) <= {0, 1}
