"""The byte behind an array is out of bounds, whatever kind of memory it is and wherever the GPU is."""

from __future__ import annotations

import pytest

from .conftest import Way

MAKE = {
    "device": "c.allocate(SIZE_OF)",
    "pitched": "pitched(c)",  # two rows, of which the pitch is a multiple of 512
    "managed": "c.out('cuMemAllocManaged', SIZE(SIZE_OF), UINT(1))",
    "pinned": "c.out('cuMemHostAlloc', SIZE(SIZE_OF), UINT(0))",
    "stream ordered": "c.out('cuMemAllocAsync', SIZE(SIZE_OF), None)",
}
PROGRAM = """
SIZE_OF = {size}
WIDTH = SIZE_OF
def pitched(c):
    global SIZE_OF
    base, pitch = U64(), SIZE()
    c.call('cuMemAllocPitch_v2', ctypes.byref(base), ctypes.byref(pitch), SIZE(WIDTH), SIZE(2), UINT(4))
    SIZE_OF = 2 * pitch.value
    return base.value
c = Cuda()
kernels = c.library_of(KERNELS)
before, memory, behind = ({make} for _ in range(3))
for n in (0, SIZE_OF - 1):
    c.launch(c.kernel(kernels, 'poke'), [U64(memory + n), UINT(n & 255)])
c.synchronize()
print('inside', flush=True)
c.launch(c.kernel(kernels, 'peek'), [U64(memory + {offset}), U64(memory)])
print(c.status('cuCtxSynchronize'))
"""


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize(("size", "offset"), [(1000, "SIZE_OF"), (4096, "SIZE_OF"), (1000, "-1")])
def test_one_byte_outside_is_found(way: Way, kind: str, size: int, offset: str) -> None:
    done = way.run(PROGRAM.format(make=MAKE[kind], size=size, offset=offset))
    assert done.stdout.split() == ["inside", "700"], done.stderr
    assert "read of 1 bytes out of bounds at 0x" in done.stderr


def test_managed_memory_that_is_not_whole_pages_is_whole_for_the_program(way: Way) -> None:
    """Neighbours keep their bytes, and all of a page's are the program's and the kernel's in turn."""
    way.check("""
        c = Cuda()
        kernels = c.library_of(KERNELS)
        poke = c.kernel(kernels, 'poke')
        sizes = [1, 4095, 4096, 4097, 9000, 100_000]
        areas = [(c.out('cuMemAllocManaged', SIZE(size), UINT(1)), size) for size in sizes]
        for base, size in areas:
            assert base % 4096 == 0
            ctypes.memset(base, 17, size)
        for base, size in areas:
            c.launch(poke, [U64(base + size - 1), UINT(99)])
        c.synchronize()
        for base, size in areas:
            assert ctypes.string_at(base, size) == bytes([17]) * (size - 1) + bytes([99])
        for base, _ in areas[::2]:
            c.free(base)
        for base, size in areas[1::2]:
            assert ctypes.string_at(base, size)[-1] == 99
    """)


def test_the_whole_slice_may_be_managed(way: Way) -> None:
    way.check("""
        c = Cuda()
        free, total = SIZE(), SIZE()
        c.call('cuMemGetInfo_v2', ctypes.byref(free), ctypes.byref(total))
        size = free.value // 4096 * 4096
        base = c.out('cuMemAllocManaged', SIZE(size), UINT(1))
        made = U64()
        assert c.status('cuMemAllocManaged', ctypes.byref(made), SIZE(8192), UINT(1)) == OUT_OF_MEMORY
        c.free(base)
        base = c.out('cuMemAllocManaged', SIZE(size), UINT(1))
    """)
