"""Programs whose slice's memory is mapped into them, and what is left of it outside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.forwarding.minimal_agent import MinimalAgent
from tests.forwarding.recorded import Client
from tests.native_build import Build

MIB = 64
PRELUDE = '''
import mmap, struct, time
MB = 1 << 20
TEXT = """.version 8.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 x, .param .u32 n) {
    .reg .b32 %r<6>; .reg .b64 %d<3>;
    ld.param.u64 %d1, [x]; ld.param.u32 %r1, [n];
    ld.global.u32 %r2, [%d1]; add.u32 %r2, %r2, %r1; st.global.u32 [%d1], %r2; ret;
}
.visible .entry slow_add(.param .u64 x, .param .u32 n) {
    .reg .b32 %r<6>; .reg .b64 %d<3>; .reg .pred %p<2>;
    ld.param.u64 %d1, [x]; ld.param.u32 %r1, [n]; mov.u32 %r3, 0;
again: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 3000000; @%p1 bra again;
    ld.global.u32 %r2, [%d1]; add.u32 %r2, %r2, %r1; st.global.u32 [%d1], %r2; ret;
}
.visible .entry spin() { again: bra again; }
"""

class Traffic(ctypes.Structure):
    _fields_ = [("copies", U64), ("copied_bytes", U64), ("waits", U64)]

class Mapped(Cuda):
    """The driver, with memory that is mapped here."""

    def __init__(self, **how):
        super().__init__(**how)
        self.library.gkMapMemory()

    def is_here(self, address, size):
        return bool(self.library.gkIsMapped(U64(address), SIZE(size)))

    def wait_in(self, stream=0):
        self.call("gkWaitInStream", U64(stream))

    def traffic(self):
        found = Traffic()
        self.library.gkTraffic(ctypes.byref(found))
        return found.copies, found.copied_bytes, found.waits

    def here(self, size):
        """An allocation that is mapped, as an array of 32-bit words."""
        address = self.allocate(size)
        assert self.is_here(address, size)
        return address, (ctypes.c_uint32 * (size // 4)).from_address(address)

    def stream(self, flags=0):
        return self.out("cuStreamCreate", UINT(flags))
'''


@contextmanager
def sharing(folder: Path, native: Build, **how: object) -> Iterator[Client]:
    """Clients of an agent whose software GPU shares its memory, on a unix socket."""
    settings = {"GPU_KERNELS_SOFTGPU_MEMORY_MIB": str(MIB)}
    driver = native.folder / "softgpu" / "libcuda.so.1"
    shares = how.pop("shares", True)
    with MinimalAgent(
        folder, native.worker, driver, mib=MIB, environment=settings, shares=bool(shares), **how
    ) as agent:
        client = Client(agent, native)
        client.prelude = client.prelude + PRELUDE
        yield client


def held_bytes(agent: MinimalAgent) -> int:
    """What the slice file has of this machine's memory."""
    assert agent.file is not None
    return os.fstat(agent.file.descriptor).st_blocks * 512
