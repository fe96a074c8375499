"""A kernel that waits for what the program writes, and does not see it, is told and does not only hang."""

from __future__ import annotations

import subprocess

import pytest

from .lives import software
from .recorded import Client

__all__ = ["software"]
pytestmark = pytest.mark.slow

LONG_S = 10
"""What a wait lasts before anything is told."""
PRELUDE = '''
    import ctypes, threading, time
    KERNELS = """.version 8.0
    .target sm_70
    .address_size 64
    .visible .entry await(.param .u64 x) {
        .reg .b32 %r; .reg .b64 %d; .reg .pred %p;
        ld.param.u64 %d, [x];
    again:
        ld.volatile.global.u32 %r, [%d]; setp.eq.u32 %p, %r, 0; @%p bra again; ret;
    }
    """
    c = Cuda()
    await_change = c.kernel(c.library_of(KERNELS), "await")

    def mapped(size):
        return c.out("cuMemHostAlloc", SIZE(size), UINT(2))

    def word(address):
        return UINT.from_address(address)
'''
WAITS = {
    "the context": 'c.status("cuCtxSynchronize")',
    "a copy": "c.copy_out(device, 4)",
    "a stream in another thread": """
    def wait():
        c.use_context()
        c.status("cuStreamSynchronize", U64(0))
    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
""",
}
TOLD = f"a wait for the GPU has lasted {LONG_S} s"


def told(client: Client, program: str, seconds: float) -> list[str]:
    """The lines of a program that does not end, after that time."""
    with client.start(PRELUDE + program) as process:
        try:
            _, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            _, errors = process.communicate()
    return [line for line in errors.splitlines() if line.startswith("gpu-kernels: ")]


@pytest.mark.parametrize("wait", WAITS)
def test_a_kernel_that_waits_for_the_program_is_told_once_with_its_memory(
    software: Client, wait: str
) -> None:
    lines = told(
        software,
        """
    latch, other, unused = mapped(4096), mapped(100), mapped(64)
    device = c.allocate(4)
    c.launch(await_change, [U64(latch)])
    c.launch(await_change, [U64(other)])
    word(latch + 8).value = 1
    word(unused).value = 1
    print(hex(latch), flush=True)
"""
        + f"    {WAITS[wait]}\n",
        2.5 * LONG_S + 5,
    )
    assert len(lines) == 1, lines
    assert TOLD in lines[0]
    assert "pinned host memory" in lines[0]
    assert ", 4096 bytes, from byte 8 on" in lines[0]
    assert "run on one host" in lines[0]


def test_a_kernel_that_only_takes_long_is_not_told(software: Client) -> None:
    lines = told(
        software,
        """
    latch = mapped(4096)
    word(latch + 8).value = 1
    c.launch(await_change, [U64(latch)])
    c.status("cuCtxSynchronize")
""",
        1.5 * LONG_S + 5,
    )
    assert lines == []
