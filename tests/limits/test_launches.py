"""Launches that cannot be: refused at once, with nothing run, and the program goes on."""

from __future__ import annotations

import pytest

from .conftest import Way

PRELUDE = """
c = Cuda()
kernels = c.library_of(KERNELS)
memory = c.allocate(64)
def works():
    c.launch(c.kernel(kernels, 'poke'), [U64(memory), UINT(7)])
    c.synchronize()
    assert c.copy_out(memory, 1) == b'\\7'
    c.copy_in(memory, bytes(64))
def launch(kernel, shape=(1, 1, 1, 1, 1, 1), shared=0, params=None, extra=None):
    numbers = [UINT(n) for n in shape]
    function = U64(c.kernel(kernels, kernel))
    return c.status('cuLaunchKernel', function, *numbers, UINT(shared), None, params, extra)
"""


def test_parameters_of_the_wrong_size_or_none_are_refused(way: Way) -> None:
    way.check(
        PRELUDE
        + """
right = (ctypes.c_uint64 * 2)(memory, 9)
def buffer(size, data=right, *more):
    size = SIZE(size)
    keep.append(size)
    at = ctypes.addressof(data) if data is not None else None
    words = [1, at, 2, ctypes.addressof(size), *more]
    return (POINTER * (len(words) + 1))(*words, None)
keep = []
whole, no_second = (POINTER * 2)(ctypes.addressof(right), ctypes.addressof(right) + 8), (POINTER * 2)()
no_second[0] = whole[0]
def nothing_ran():
    c.synchronize()
    assert c.copy_out(memory, 1) == b'\\0'
assert launch('poke') == INVALID_VALUE
assert launch('poke', params=no_second) == INVALID_VALUE
assert launch('poke', params=whole, extra=buffer(12)) == INVALID_VALUE
for size in (0, 1, 8, 11):
    assert launch('poke', extra=buffer(size)) == INVALID_VALUE, size
assert launch('poke', extra=buffer(12, None)) == INVALID_VALUE
assert launch('poke', extra=buffer(12, right, 77, 1)) == INVALID_VALUE
# A list without an end, and one that never gives a buffer.
assert launch('poke', extra=(POINTER * 64)(*[2, ctypes.addressof(SIZE(12))] * 32)) == INVALID_VALUE
assert launch('poke', extra=(POINTER * 1)()) == INVALID_VALUE
nothing_ran()
works()
# What is larger than the kernel's parameters is read as far as they go.
for size in (12, 16, 1 << 30, (1 << 64) - 1):
    assert launch('poke', extra=buffer(size)) == SUCCESS, size
c.synchronize()
assert c.copy_out(memory, 1) == b'\\x09'
# A kernel without parameters takes an empty list, and a buffer of nothing.
assert launch('nothing', extra=(POINTER * 1)()) == SUCCESS
assert launch('nothing', extra=buffer(0, None)) == SUCCESS
c.synchronize()
"""
    )


SHAPES = [
    *[tuple(0 if i == zero else 1 for i in range(6)) for zero in range(6)],
    *[(2**31, 1, 1, 1, 1, 1), (2**32 - 1, 1, 1, 1, 1, 1), (1, 65536, 1, 1, 1, 1), (1, 1, 65536, 1, 1, 1)],
    *[(1, 1, 1, 1025, 1, 1), (1, 1, 1, 1, 1025, 1), (1, 1, 1, 1, 1, 65), (1, 1, 1, 32, 32, 2)],
    (1, 1, 1, 2**31, 2, 1),
]


def test_grids_and_blocks_of_zero_or_too_large_are_refused(way: Way) -> None:
    way.check(
        PRELUDE
        + f"""
for shape in {SHAPES}:
    assert launch('nothing', shape) == INVALID_VALUE, shape
for shared in (48 * 1024 + 1, 1 << 20, 2**32 - 1):
    assert launch('nothing', shared=shared) == INVALID_VALUE, shared
works()
# The largest there may be, in each direction.
for shape in ((1, 65535, 1, 1, 1, 1), (1, 1, 65535, 1, 1, 1), (1, 1, 1, 1024, 1, 1), (1, 1, 1, 8, 2, 64)):
    assert launch('nothing', shape) == SUCCESS, shape
assert launch('nothing', shared=48 * 1024) == SUCCESS
works()
"""
    )


def test_recursion_beyond_the_stack_ends_the_context_and_says_how_deep_it_may_be(way: Way) -> None:
    done = way.run(
        PRELUDE
        + """
c.launch(c.kernel(kernels, 'recurse'), [U64(memory)])
print(c.status('cuCtxSynchronize'), c.status('cuCtxSynchronize'))
"""
    )
    assert done.stdout.split() == ["714", "714"], done.stderr
    place = next(line for line in done.stderr.splitlines() if "overflows the stack" in line)
    assert place.startswith("gpu-kernels: kernel recurse, block (0,0,0), thread (0,0,0): call of deeper")
    assert "may be 256 deep and have 64 KiB" in place
    way.check(PRELUDE + "works()\n")


def test_recursion_is_as_deep_as_the_stack_that_the_program_has_set(way: Way) -> None:
    done = way.run(
        PRELUDE
        + """
def descend(depth):
    c.launch(c.kernel(kernels, 'descend'), [U64(memory), UINT(depth)])
    status = c.status('cuCtxSynchronize')
    return status or int.from_bytes(c.copy_out(memory, 4), 'little')
print(descend(200))
c.call('cuCtxSetLimit', UINT(0), SIZE(4800))
print(descend(290), descend(310))
"""
    )
    assert done.stdout.split() == ["200", "290", "714"], done.stderr
    assert "a thread's calls may be 300 deep" in done.stderr


WILD = [
    ("0", "a null pointer, or 0 bytes behind one"),
    ("24", "a null pointer, or 24 bytes behind one"),
    ("id(c)", "is it a pointer of the host, or one that was never set?"),
    ("0x5A5A5A5A5A5A", "is it a pointer of the host, or one that was never set?"),
    ("memory + 64", "the nearest allocation is 0x{memory:x} of 64 bytes, which ends there"),
    ("memory + 200", "the nearest allocation is 0x{memory:x} of 64 bytes, which ends 136 bytes before it"),
    ("memory - 16", "the nearest allocation is 0x{memory:x} of 64 bytes, which begins 16 bytes behind it"),
    ("seven + 7", "the nearest is the variable seven of 7 bytes, which ends there"),
]


@pytest.mark.parametrize(("pointer", "words"), WILD, ids=[pointer for pointer, _ in WILD])
def test_a_wild_address_is_named_with_what_is_nearest_of_the_programs_own(
    way: Way, pointer: str, words: str
) -> None:
    """A module's constants lie beside what the program allocates, and are not what it has missed."""
    done = way.run(
        PRELUDE
        + f"""
address, size = U64(), SIZE()
c.call('cuLibraryGetGlobal', ctypes.byref(address), ctypes.byref(size), U64(kernels), b'seven')
seven = address.value
print(memory)
c.launch(c.kernel(kernels, 'poke'), [U64({pointer}), UINT(1)])
print(c.status('cuCtxSynchronize'))
"""
    )
    memory, status = done.stdout.split()
    assert status == "700", done.stderr
    assert words.format(memory=int(memory)) in done.stderr
