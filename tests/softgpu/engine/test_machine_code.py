"""The trial of machine code: what it does must be, to the last bit, what the handlers do."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.softgpu.bench import Device, LaunchError, executor
from tests.softgpu.engine.test_blocks import entry

pytestmark = pytest.mark.skipif(executor() != "x86-64-v4", reason="machine code is for AVX-512")

BLOCK, GRID, WORDS = 160, 3, 1024  # more warps than one, fewer than a gang
THREADS = BLOCK * GRID
REGISTERS = 5
ODD_FLOATS = [0.0, -0.0, 1.0, -1.5, 1e-42, 3e38, np.inf, -np.inf, np.nan]
FLOAT_BITS = [int(np.float32(value).view(np.uint32)) for value in ODD_FLOATS] + [0xFFC12345, 0x7F800001]

INTEGER = ["add.u32", "sub.u32", "mul.lo.u32", "and.b32", "or.b32", "xor.b32"]
INTEGER += ["min.s32", "max.s32", "min.u32", "max.u32"]
ORDERS = ["eq", "ne", "lt", "le", "gt", "ge"]
WORDS_OF = {
    "integer": INTEGER,
    "narrow": [*INTEGER, "add.f32", "sub.f32", "mul.f32", "div.rn.f32"],
    "wide": ["add.s64", "sub.s64", "mul.lo.s64", "and.b64", "or.b64", "xor.b64"],
    "shift": ["shl.b32", "shr.u32", "shr.s32"],
    "wide_shift": ["shl.b64", "shr.u64", "shr.s64"],
    "compare": [f"setp.{order}.{kind}" for kind in ("s32", "u32", "f32") for order in ORDERS]
    + [f"setp.{order}.f32" for order in ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")],
    "wide_compare": [f"setp.{order}.{kind}" for kind in ("s64", "u64") for order in ORDERS],
    "logic": ["and.pred", "or.pred", "xor.pred"],
    "sign": ["s32", "u32"],
    "longer": ["s64.s32", "u64.u32"],
    "n": [f"%n{i}" for i in range(REGISTERS)],  # 32 bits, of any meaning
    "w": [f"%w{i}" for i in range(REGISTERS)],
    "p": ["%q0", "%q1", "%q2"],
    "value": ["%n0", "%n1", "7", "-3"],
    "by": ["0", "1", "5", "31", "32", "63", "64", "70"],
}
FORMS = [
    "{narrow} {n}, {n}, {n};",
    "{integer} {n}, {n}, {value};",
    "fma.rn.f32 {n}, {n}, {n}, {n};",
    "mad.lo.u32 {n}, {n}, {n}, {n};",
    "{shift} {n}, {n}, {by};",
    "{wide} {w}, {w}, {w};",
    "mad.lo.s64 {w}, {w}, {w}, {w};",
    "{wide_shift} {w}, {w}, {by};",
    "mul.wide.{sign} {w}, {n}, {n};",
    "mad.wide.{sign} {w}, {n}, {value}, {w};",
    "cvt.{longer} {w}, {n};",
    "cvt.u32.u64 {n}, {w};",
    "not.b32 {n}, {n}; not.b64 {w}, {w};",
    "{compare} {p}, {n}, {n};",
    "{wide_compare} {p}, {w}, {w};",
    "selp.b32 {n}, {n}, {n}, {p}; selp.b64 {w}, {w}, {w}, {p};",
    "{logic} {p}, {p}, {p};",
    "@{p} {narrow} {n}, {n}, {n};",
    "bar.sync 0;",
    "",  # an access
]


@pytest.fixture(scope="module")
def coding(device: Device) -> Iterator[Device]:
    device.machine_code(True)
    yield device
    device.machine_code(False)


def instruction(data: st.DataObject) -> str:
    def one(kind: re.Match[str]) -> str:
        return data.draw(st.sampled_from(WORDS_OF[kind[1]]))

    form = data.draw(st.sampled_from(FORMS))
    if not form:
        return access(
            data, data.draw(st.sampled_from(WORDS_OF["n"])), data.draw(st.sampled_from(WORDS_OF["w"]))
        )
    return re.sub(r"\{(\w+)\}", one, form)


def access(data: st.DataObject, narrow: str, wide: str) -> str:
    """Of a thread's own word of shared memory, or of any that its register or a constant stride says."""
    draw = data.draw
    shape = draw(
        st.sampled_from(
            ["shl.b32 %a, %r1, 2;", "mov.u32 %a, 16;", f"shl.b32 %a, {narrow}, 3;", "mul.lo.u32 %a, %r1, 24;"]
        )
    )
    kind, register, align = draw(
        st.sampled_from([("u32", narrow, 4), ("u64", wide, 8), ("s16", narrow, 2), ("u8", narrow, 1)])
    )
    where = f"{shape} and.b32 %a, %a, {WORDS * 4 - 8 & -align}; mov.u32 %s, words; add.u32 %s, %s, %a;"
    guard = draw(st.sampled_from(["", "", "@%q1 ", "@!%q0 "]))
    if draw(st.booleans()):
        return f"{where} {guard}ld.shared.{kind} {register}, [%s + {draw(st.sampled_from([0, 8]))}];"
    # One thread's word is nobody else's, so that what is stored does not depend on the order of warps.
    own = "shl.b32 %a, %r1, 3; mov.u32 %s, mine; add.u32 %s, %s, %a;"
    return f"{own} {guard}st.shared.{kind} [%s], {register}; ld.shared.{kind} {register}, [%s];"


def program(data: st.DataObject) -> str:
    lines = [
        f".shared .align 8 .b8 words[{WORDS * 4 + 16}]; .shared .align 8 .b8 mine[{BLOCK * 8}];",
        f".reg .b32 %n<{REGISTERS}>; .reg .b64 %w<{REGISTERS}>; .reg .pred %q<3>;",
        ".reg .b32 %a, %s, %i; .reg .b64 %o;",
        "ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in]; mad.wide.u32 %rd3, %r4, 4, %rd2;",
    ]
    lines += [f"ld.global.b32 %n{i}, [%rd3 + {THREADS * 4 * i}];" for i in range(REGISTERS)]
    lines += [f"mad.wide.s32 %w{i}, %n{i}, 77, {i - 2};" for i in range(REGISTERS)]
    lines += [f"setp.lt.s32 %q{i}, %r1, {bound};" for i, bound in enumerate((BLOCK, 40, 0))]
    # All of the shared memory is written before it is read.
    lines.append(
        "mov.u32 %i, %r1;"
        "FILL: shl.b32 %a, %i, 2; mov.u32 %s, words; add.u32 %s, %s, %a; st.shared.u32 [%s], %a;"
        f"add.u32 %i, %i, {BLOCK}; setp.lt.u32 %p1, %i, {WORDS + 4}; @%p1 bra FILL; bar.sync 0;"
    )
    lines.append("shl.b32 %a, %r1, 3; mov.u32 %s, mine; add.u32 %s, %s, %a; st.shared.u64 [%s], %w0;")
    lines += [instruction(data) for _ in range(data.draw(st.integers(1, 30)))]
    lines.append("mad.wide.u32 %o, %r4, 8, %rd1;")
    lines += [
        f"cvt.u64.u32 %rd4, %n{i}; st.global.b64 [%o + {THREADS * 8 * i}], %rd4;" for i in range(REGISTERS)
    ]
    lines += [f"st.global.b64 [%o + {THREADS * 8 * (REGISTERS + i)}], %w{i};" for i in range(REGISTERS)]
    lines += [
        f"selp.u64 %rd4, 1, 0, %q{i}; st.global.b64 [%o + {THREADS * 8 * (2 * REGISTERS + i)}], %rd4;"
        for i in range(3)
    ]
    return entry(".param .u64 out, .param .u64 in", "\n".join(lines))


@settings(max_examples=200, deadline=None)
@given(st.data(), st.integers(0, 2**32 - 1), st.sampled_from([BLOCK, BLOCK - 5, 32]))
def test_a_program_leaves_the_same_bits(device: Device, data: st.DataObject, seed: int, block: int) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(0, 2**32, (REGISTERS, THREADS), np.uint32)
    odd = random.random(values.shape) < 0.3
    values[odd] = random.choice(FLOAT_BITS, odd.sum())
    given_values = device.buffer(values)
    text, results = program(data), []
    for machine_code in (False, True):
        device.machine_code(machine_code)
        module = device.load(text)
        device.machine_code(False)
        assert (module.ops_with_code > 0) == machine_code
        out = device.buffer(np.zeros((2 * REGISTERS + 3, THREADS), np.uint64))
        for _ in range(2):  # the second time, ranges and shapes are known
            module(out, given_values, grid=GRID, block=block)
        results.append(out.get())
        module.unload()
        out.free()
    given_values.free()
    np.testing.assert_array_equal(results[1], results[0])


@pytest.mark.parametrize(
    "address",
    [
        "mad.wide.u32 %rd2, %r4, 4, %rd1;",  # a row that goes past the end
        "mad.wide.u32 %rd2, %r4, 4096, %rd1;",  # far apart
        "mad.wide.u32 %rd2, %r4, 4, %rd1; add.u64 %rd2, %rd2, 2;",  # misaligned
        "mov.u64 %rd2, 64;",  # nobody's, all lanes at one
        "mad.wide.u32 %rd2, %r4, 4, -64;",  # around the end of all addresses
    ],
)
def test_a_fault_is_told_as_the_handlers_tell_it(device: Device, address: str) -> None:
    text = entry(
        ".param .u64 out",
        f"""ld.param.u64 %rd1, [out]; {address} add.u32 %r9, %r4, 1;
        ld.global.u32 %r10, [%rd2]; add.u32 %r10, %r10, %r9; st.global.u32 [%rd2], %r10;""",
    )
    out = device.buffer(np.zeros(40, np.uint32))
    told = []
    for machine_code in (False, True):
        device.machine_code(machine_code)
        module = device.load(text)
        device.machine_code(False)
        with pytest.raises(LaunchError) as caught:
            module(out, block=64)
        told.append((caught.value.status, str(caught.value)))
        module.unload()
    out.free()
    assert told[0] == told[1]


def test_shared_memory_ends_where_it_ends(coding: Device) -> None:
    text = entry(
        ".param .u64 out",
        """.shared .b32 few[48]; ld.param.u64 %rd1, [out];
        shl.b32 %r5, %r1, 2; mov.u32 %r6, few; add.u32 %r6, %r6, %r5; add.u32 %r9, %r1, 1;
        st.shared.u32 [%r6], %r9; ld.shared.u32 %r10, [%r6];
        mad.wide.u32 %rd2, %r4, 4, %rd1; st.global.u32 [%rd2], %r10;""",
    )
    out = coding.buffer(np.zeros(64, np.uint32))
    module = coding.load(text)
    assert module.ops_with_code > 0
    module(out, block=48)
    assert out.get()[:48].tolist() == list(range(1, 49))
    with pytest.raises(LaunchError):
        module(out, block=64)
    module.unload()
    out.free()


def test_its_memory_is_either_written_or_run_and_goes_with_its_program(coding: Device) -> None:
    def executable() -> dict[str, str]:
        """Mappings without a file, and what they allow; callbacks of ctypes may have some of their own."""
        with open("/proc/self/maps") as maps:
            places = [line.split() for line in maps]
        return {place[0]: place[1] for place in places if "x" in place[1] and len(place) == 5}

    before = executable()
    module = coding.load(
        entry(
            ".param .u64 out",
            "ld.param.u64 %rd1, [out]; add.u32 %r9, %r1, 1; add.u32 %r9, %r9, %r1;"
            "mad.wide.u32 %rd2, %r4, 4, %rd1; st.global.u32 [%rd2], %r9;",
        )
    )
    made = {place: allowed for place, allowed in executable().items() if place not in before}
    assert list(made.values()) == ["r-xp"]
    module.unload()
    assert executable() == before
