"""Kernels that reach for memory of the process that runs them: a lane may touch its allocations alone."""

from __future__ import annotations

import numpy as np
import pytest

from tests.softgpu.bench import Device, LaunchError, Status
from tests.softgpu.engine.elementwise import HEAD

BYTES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}
INSTRUCTIONS = {
    "read": "ld{space}.{kind} %v, [%rd4+{offset}];",
    "write": "mov.b{bits} %v, 0; st{space}.{kind} [%rd4+{offset}], %v;",
    "atomic access": "mov.b{bits} %v, 1; atom{space}.exch.b{bits} %v, [%rd4+{offset}], %v;",
}


def reach(space: str, kind: str, offset: int, instruction: str) -> str:
    """A kernel whose lanes use the addresses of a table, with ``offset`` in the instruction."""
    bits = max(16, 8 * BYTES[kind])
    access = INSTRUCTIONS[instruction].format(space=space, kind=kind, offset=offset, bits=bits)
    return f"""{HEAD}
    .shared .align 16 .b8 room[1024];
    .visible .entry k(.param .u64 where, .param .u64 out) {{
        .reg .b32 %r<4>; .reg .b64 %rd<8>; .reg .b{bits} %v;
        mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [where]; ld.param.u64 %rd2, [out];
        mov.u64 %rd5, room; st.shared.u32 [%rd5], %r1;
        mad.wide.u32 %rd3, %r1, 8, %rd1; ld.global.u64 %rd4, [%rd3];
        {access}
        mad.wide.u32 %rd2, %r1, 8, %rd2; st.global.{kind} [%rd2], %v;
        ret;
    }}"""


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
@pytest.mark.parametrize("kind", ["u32", "u64"])
@pytest.mark.parametrize("space", ["", ".global", ".shared"])
def test_addresses_that_span_all_of_memory_are_out_of_bounds(
    device: Device, space: str, kind: str, instruction: str
) -> None:
    """The first and the last address together span 2^64 bytes, which is 0 to a sum that wraps around."""
    secret = np.full(64, 0x5EC2E7, np.uint64)
    inside = device.buffer(np.zeros(64, np.uint64))
    offset = 0 if space == ".shared" else inside.address
    table = np.zeros(32, np.uint64)
    table[1] = (1 << 64) - BYTES[kind]
    table[2:] = (secret.ctypes.data - offset) % (1 << 64)
    out = device.buffer(np.zeros(32, np.uint64))
    module = device.load(reach(space, kind, offset, instruction))
    with pytest.raises(LaunchError) as failed:
        module(device.buffer(table), out)
    assert failed.value.status == Status.ILLEGAL_ADDRESS
    assert not np.any(out.get() == 0x5EC2E7)
    assert np.all(secret == 0x5EC2E7)
