"""Registers of 128 bits: moved whole or in halves, loaded, stored, exchanged and swapped."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.softgpu.bench import Device, LaunchError, LinkError, Status

HEAD = ".version 8.4\n.target sm_90\n.address_size 64\n"
REGISTERS = """
    .reg .b128 %q<4>; .reg .b64 %rd<10>; .reg .b32 %r<4>; .reg .pred %p;
    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    mad.wide.u32 %rd1, %r1, 16, %rd1;
    mad.wide.u32 %rd2, %r1, 16, %rd2;
"""
THREADS = 40


def kernel(body: str, module: str = "", parameters: str = "", target: str = HEAD) -> str:
    head = f"{target}{module}\n.visible .entry k(.param .u64 in, .param .u64 out{parameters}) {{"
    return f"{head}\n{REGISTERS}\n{body}\nret;\n}}\n"


def values() -> np.ndarray:
    generator = np.random.default_rng(5)
    return generator.integers(0, 2**64, (THREADS, 2), dtype=np.uint64)


def run(device: Device, text: str, given: np.ndarray, block: int = THREADS) -> np.ndarray:
    source, target = device.buffer(given), device.buffer(np.zeros_like(given))
    device.load(text)(source, target, block=block)
    return target.get()


SWAP = "mov.b128 {%rd3, %rd4}, %q1; mov.b128 %q2, {%rd4, %rd3};"

SAME, SWAPPED, HIGH_FIRST = (lambda v: v), (lambda v: v[:, ::-1]), (lambda v: np.stack([v[:, 1], v[:, 0]], 1))

COMPUTED = {
    "a whole register": ("ld.global.b128 %q1, [%rd1]; mov.b128 %q2, %q1; st.global.b128 [%rd2], %q2;", SAME),
    "halves": (f"ld.global.b128 %q1, [%rd1]; {SWAP} st.global.b128 [%rd2], %q2;", SWAPPED),
    "one half into a sink": (
        "ld.global.b128 %q1, [%rd1]; mov.b128 {_, %rd3}, %q1; mov.b128 {%rd4, _}, %q1;"
        "st.global.b64 [%rd2], %rd3; st.global.b64 [%rd2+8], %rd4;",
        SWAPPED,
    ),
    "generic": ("ld.b128 %q1, [%rd1]; st.b128 [%rd2], %q1;", SAME),
    "an immediate half": (
        "ld.global.b128 %q1, [%rd1]; mov.b128 {%rd3, %rd4}, %q1; mov.b128 %q2, {%rd3, 9};"
        "st.global.b128 [%rd2], %q2;",
        lambda v: np.stack([v[:, 0], np.full(THREADS, 9, np.uint64)], 1),
    ),
    "relaxed": ("ld.relaxed.gpu.global.b128 %q1, [%rd1]; st.release.gpu.global.b128 [%rd2], %q1;", SAME),
    "volatile": ("ld.volatile.global.b128 %q1, [%rd1]; st.volatile.global.b128 [%rd2], %q1;", SAME),
    "read only, with a hint": (
        "createpolicy.fractional.L2::evict_last.b64 %rd5;"
        "ld.global.nc.L2::cache_hint.b128 %q1, [%rd1], %rd5; st.global.b128 [%rd2], %q1;",
        SAME,
    ),
    "shared memory": (
        f".shared .align 16 .b8 tile[{16 * THREADS}]; mov.u32 %r2, tile; mad.lo.u32 %r2, %r1, 16, %r2;"
        "ld.global.b128 %q1, [%rd1]; st.shared.b128 [%r2], %q1; ld.shared.b128 %q2, [%r2];"
        "st.global.b128 [%rd2], %q2;",
        SAME,
    ),
    "local memory": (
        ".local .align 16 .b8 own[32]; ld.global.b128 %q1, [%rd1]; st.local.b128 [own+16], %q1;"
        "ld.local.b128 %q2, [own+16]; st.global.b128 [%rd2], %q2;",
        SAME,
    ),
    "a guard": (
        "and.b32 %r2, %r1, 1; setp.eq.u32 %p, %r2, 0; ld.global.b128 %q1, [%rd1]; mov.b128 %q2, {7, 8};"
        "@%p mov.b128 %q2, %q1; @%p st.global.b128 [%rd2], %q2; @!%p st.global.b128 [%rd2], %q2;",
        lambda v: np.where(np.arange(THREADS)[:, None] % 2 == 0, v, np.array([7, 8], np.uint64)),
    ),
    "exchange": (
        "mov.b128 %q1, {1, 2}; atom.global.exch.b128 %q2, [%rd1], %q1; st.global.b128 [%rd2], %q2;",
        SAME,
    ),
    "a guarded exchange": (
        "and.b32 %r2, %r1, 1; setp.eq.u32 %p, %r2, 0; mov.b128 %q1, {1, 2}; mov.b128 %q2, {3, 4};"
        "@%p atom.global.exch.b128 %q2, [%rd1], %q1; st.global.b128 [%rd2], %q2;",
        lambda v: np.where(np.arange(THREADS)[:, None] % 2 == 0, v, np.array([3, 4], np.uint64)),
    ),
}


@pytest.mark.parametrize("what", COMPUTED)
def test_what_is_moved_arrives(device: Device, what: str) -> None:
    body, wanted = COMPUTED[what]
    given = values()
    np.testing.assert_array_equal(run(device, kernel(body), given), wanted(given))


@pytest.mark.parametrize("space", [".global", ".relaxed.gpu.global", ".acq_rel.sys", ""])
@pytest.mark.parametrize("offset", [0, 16])
def test_swaps_only_what_was_expected_in_both_halves(device: Device, space: str, offset: int) -> None:
    given = values()
    expected = given.copy()
    expected[1::3, 0] ^= np.uint64(1)
    expected[2::3, 1] ^= np.uint64(1 << 63)
    body = f"""
        ld.global.b128 %q1, [%rd1];
        add.u64 %rd6, %rd2, {-offset};
        mov.b128 %q2, {{11, 12}};
        atom{space}.cas.b128 %q3, [%rd6+{offset}], %q1, %q2;
        st.global.b128 [%rd1], %q3;
    """
    source, target = device.buffer(expected), device.buffer(given)
    device.load(kernel(body))(source, target, block=THREADS)
    same = (given == expected).all(1)[:, None]
    np.testing.assert_array_equal(target.get(), np.where(same, np.array([11, 12], np.uint64), given))
    np.testing.assert_array_equal(source.get(), given)


def test_swaps_and_exchanges_in_shared_memory(device: Device) -> None:
    body = """
        .shared .align 16 .b8 tile[640];
        mov.u32 %r2, tile; mad.lo.u32 %r2, %r1, 16, %r2;
        ld.global.b128 %q1, [%rd1]; mov.b128 %q2, {5, 6};
        atom.shared.exch.b128 %q3, [%r2], %q1;
        atom.shared.cas.b128 %q3, [%r2], %q1, %q2;
        st.global.b128 [%rd1], %q3;
        ld.shared.b128 %q3, [%r2]; st.global.b128 [%rd2], %q3;
    """
    given = values()
    source, target = device.buffer(given), device.buffer(np.zeros_like(given))
    device.load(kernel(body))(source, target, block=THREADS)
    np.testing.assert_array_equal(source.get(), given)
    np.testing.assert_array_equal(target.get(), np.tile(np.array([5, 6], np.uint64), (THREADS, 1)))


def test_threads_of_many_blocks_count_with_a_swap_and_lose_none(device: Device) -> None:
    """Each adds one to the low half and three to the high one in a loop around the swap."""
    body = """
        ld.param.u64 %rd2, [out];
        ld.global.b128 %q1, [%rd2];
    AGAIN:
        mov.b128 {%rd3, %rd4}, %q1;
        add.u64 %rd5, %rd3, 1; add.u64 %rd6, %rd4, 3;
        mov.b128 %q2, {%rd5, %rd6};
        atom.global.cas.b128 %q3, [%rd2], %q1, %q2;
        mov.b128 {%rd7, %rd8}, %q3;
        xor.b64 %rd7, %rd7, %rd3; xor.b64 %rd8, %rd8, %rd4; or.b64 %rd7, %rd7, %rd8;
        setp.ne.u64 %p, %rd7, 0;
        mov.b128 %q1, %q3;
        @%p bra AGAIN;
    """
    counted = device.buffer(np.zeros(2, np.uint64))
    device.load(kernel(body))(counted, counted, grid=16, block=64)
    assert counted.get().tolist() == [1024, 3072]


def test_parameters_of_kernels_and_functions(device: Device) -> None:
    module = """
    .func (.param .align 16 .b128 back) turned(.param .align 16 .b128 given) {
        .reg .b128 %q<3>; .reg .b64 %rd<3>;
        ld.param.b128 %q1, [given];
        mov.b128 {%rd1, %rd2}, %q1;
        mov.b128 %q2, {%rd2, %rd1};
        st.param.b128 [back], %q2;
        ret;
    }
    """
    body = """
        ld.param.b128 %q1, [wide];
        { .param .align 16 .b128 there; .param .align 16 .b128 back;
          st.param.b128 [there], %q1;
          call (back), turned, (there);
          ld.param.b128 %q2, [back]; }
        st.global.b128 [%rd2], %q2;
    """
    out = device.buffer(np.zeros((THREADS, 2), np.uint64))
    text = kernel(body, module, ", .param .align 16 .b128 wide")
    device.load(text)(out, out, 3 << 64 | 5, block=THREADS)
    np.testing.assert_array_equal(out.get(), np.tile(np.array([3, 5], np.uint64), (THREADS, 1))[:, :])


def test_an_address_that_is_no_multiple_of_16_is_a_fault(device: Device) -> None:
    for access in ("ld.global.b128 %q1, [%rd1+8];", "atom.global.exch.b128 %q1, [%rd1+8], %q1;"):
        with pytest.raises(LaunchError) as caught:
            run(device, kernel("mov.b128 %q1, {0, 0};" + access), values())
        assert caught.value.status == Status.MISALIGNED_ADDRESS


def test_the_second_half_of_an_access_is_checked(device: Device) -> None:
    given = device.buffer(np.zeros(3, np.uint64))
    for access in ("ld.global.b128 %q1, [%rd1];", "atom.global.cas.b128 %q1, [%rd1], %q1, %q1;"):
        with pytest.raises(LaunchError) as caught:
            device.load(kernel("mov.b128 %q1, {0, 0};" + access))(given, given, block=2)
        assert caught.value.status == Status.ILLEGAL_ADDRESS


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("add.b128 %q1, %q2, %q3;", "unknown instruction add.b128"),
        ("selp.b128 %q1, %q2, %q3, %p;", "unknown instruction selp.b128"),
        ("add.u64 %rd3, %q1, %rd4;", "register %q1 has 128 bits where add.u64 wants 64"),
        ("ld.global.b64 %q1, [%rd1];", "register %q1 has 128 bits where ld.global.b64 gives 64"),
        ("st.global.b32 [%rd1], %q1;", "register %q1 has 128 bits where st.global.b32 wants 32"),
        ("ld.global.b128 %rd3, [%rd1];", "ld.global.b128 wants a register of 128 bits"),
        ("ld.global.v2.b128 {%q1, %q2}, [%rd1];", "unknown instruction ld.global.v2.b128"),
        ("mov.b128 %q1, {%rd3, %rd4, %rd5};", "mov.b128 wants two parts of 64 bits"),
        ("mov.b128 %q1, %rd3;", "mov.b128 wants a register of 128 bits"),
        ("mov.b128 %q1, {%r1, %r2};", "register %r1 has 32 bits where mov.b128 wants 64"),
        ("atom.global.add.b128 %q1, [%rd1], %q2;", "unknown instruction atom.global.add.b128"),
        ("red.global.exch.b128 [%rd1], %q2;", "unknown instruction red.global.exch.b128"),
        ("atom.local.exch.b128 %q1, [%rd1], %q2;", "unknown instruction atom.local.exch.b128"),
        ("cvt.u64.b128 %rd3, %q1;", "unknown instruction cvt.u64.b128"),
        ("shfl.sync.idx.b128 %q1, %q2, 0, 31, -1;", "unknown instruction shfl.sync.idx.b128"),
    ],
)
def test_what_128_bits_cannot_do_is_refused_by_name(device: Device, body: str, message: str) -> None:
    with pytest.raises(LinkError, match=re.escape(message)):
        device.load(kernel(body))


def test_a_parameter_in_a_register_of_128_bits_is_refused(device: Device) -> None:
    function = ".func f(.reg .b128 %q) { ret; }\n"
    with pytest.raises(LinkError, match="a parameter in a register of 128 bits is not supported"):
        device.load(HEAD + function)
