"""PTX as text: what is accepted, and how the rest is refused."""

from __future__ import annotations

import contextlib
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.softgpu.bench import Device, LaunchError, LinkError, Status
from tests.softgpu.engine.elementwise import HEAD, kernel_text

SIMPLE = kernel_text("add.u32 %d, %s0, 1;", "u32", ("u32",))


def entry(body: str, module: str = "") -> str:
    return f"{HEAD}{module}\n.visible .entry k(.param .u64 out) {{\n{body}\nret;\n}}\n"


REFUSED = [
    ("", "this is no PTX text"),
    ("hello world", "a directive expected, found 'hello'"),
    ("\x7fELF\x02\x01", "byte 127 is no PTX text"),
    (HEAD + ".entry k(", ".param expected"),
    (HEAD + ".entry k() { ret", "an operand expected"),
    (HEAD.replace("64\n", "32\n"), "only .address_size 64"),
    (entry("frobnicate.u32 %r1, %r2;"), "unknown instruction frobnicate.u32"),
    (entry(".reg .b32 %r<4>; add.u33 %r1, %r2, %r3;"), "unknown instruction add.u33"),
    (entry(".reg .b32 %r<4>; add.sat.u32 %r1, %r2, %r3;"), "unknown instruction add.sat.u32"),
    (entry(".reg .b32 %r<4>; add.s32 %r1, %r2;"), "add.s32 has 2 operands"),
    (entry(".reg .b32 %r<4>; add.s32 %r1, %r2, %r4;"), "unknown special register %r4"),
    (entry(".reg .b32 %r<4>; add.s64 %r1, %r2, %r3;"), "has 32 bits where add.s64"),
    (entry(".reg .b32 %r<4>; .reg .b64 %d; mul.wide.u32 %r1, %r2, %r3;"), "register %r1 has 32 bits where"),
    (entry(".reg .b32 %r; bra NOWHERE;"), "unknown label NOWHERE"),
    (entry("L: L: bra L;"), "label L stands here twice"),
    (entry("@%p1 bra L; L:"), "%p1 is no predicate"),
    (entry(".reg .b32 %r; mov.u32 %r, nothing;"), "undefined symbol nothing"),
    (entry(".reg .b32 %r; ld.param.u64 %r, [out];"), "register %r has 32 bits where ld.param.u64 gives 64"),
    (entry(".reg .b64 %r; ld.param.u64 %r, [out+8];"), "a read outside parameter out"),
    (entry(".reg .b32 %r; mov.u32 %r, 0x;"), "a malformed number"),
    (entry(".reg .b64 %r; mov.u64 %r, 0x1FFFFFFFFFFFFFFFF;"), "an integer of more than 64 bits"),
    (entry(".reg .f32 %f; mov.f32 %f, 0f123;"), "0f wants 8 hexadecimal digits"),
    (entry("call nobody;"), "undefined function nobody"),
    (entry(".reg .v4 .f32 %v;"), "vector registers are not supported"),
    (entry("/* never ends"), "a comment that does not end"),
    (HEAD + ".global .b8 x[99999999999999999999];", "an integer of more than 64 bits"),
    (HEAD + ".global .b8 x[4294967296][4294967296];", "more than 2^40 bytes"),
    (HEAD + ".global .align 3 .b8 x;", "an alignment is a power of two"),
    (HEAD + ".global .b8 x[2] = {1, 2, 3};", "an initialiser longer than its variable"),
    (HEAD + ".global .u32 x = nothing;", "an address in an initialiser needs a 64-bit element"),
    (HEAD + ".global .u64 x = nothing;", "undefined symbol nothing"),
    (HEAD + ".shared .b8 x[4] = {1};", "only .global and .const variables have initialisers"),
    (HEAD + ".const .b8 x[65537];", "more than 65536 bytes of constant memory"),
    (HEAD + ".global .u32 x; .global .u32 x;", "x is defined twice"),
    (
        entry(".reg .b32 %r; mov.u32 %r, big;", ".shared .b8 big[70000];"),
        "more than 65536 bytes of shared memory",
    ),
    (entry(".local .b8 big[600000];"), "more than 524288 bytes of local memory"),
    (
        HEAD.replace("8.5", "8.0") + ".entry k(.param .b8 x[4097]) { ret; }",
        "more than 4096 bytes of parameters",
    ),
    (HEAD + ".entry k(.param .b8 x[32765]) { ret; }", "more than 32764 bytes of parameters"),
    (entry(".reg .b32 r; mov.u32 r, 1 / (2 - 2);"), "a division by zero in an expression"),
    (entry(".reg .b32 r; mov.u32 r, " + "(" * 200 + "1;"), "an expression nested too deeply"),
    (entry(".reg .b32 r; mov.u32 r, (1;"), "')' expected after an expression"),
    (entry(".reg .b32 r<4>; vadd.u32.u32.u32 r1, r2.b4, r3;"), "unknown part .b4 of a register"),
    (HEAD + ".global .u32 x = -y;", "an operand expected, found 'y'"),
    (entry("call __cudaCDP2Memcpy3DAsync;"), "the software GPU's device runtime does not have"),
    (entry("{" * 200 + "}" * 200), "nested too deeply"),
    (HEAD + ".global .u32 x = " + "{" * 100, "more than 16 levels"),
    (entry(".reg .pred %p; setp.eq.u32 !!!!%p, 1, 2;"), "'!' wants a predicate"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=lambda value: None)
def test_refused_with_the_reason(device: Device, text: str, message: str) -> None:
    with pytest.raises(LinkError, match=re.escape(message)):
        device.load(text)


def test_an_unknown_instruction_is_named_with_its_line(device: Device) -> None:
    text = entry("// a comment\n/* and\nanother */\nwgmma.mma_async.sync.aligned.m64n8k16 x;")
    text = text.replace("wgmma", "  wgmma")
    line = next(i for i, content in enumerate(text.splitlines(), 1) if "wgmma" in content)
    with pytest.raises(LinkError) as caught:
        device.load(text, names=["lesson"])
    what = "unknown instruction wgmma.mma_async.sync.aligned.m64n8k16"
    assert str(caught.value) == f"ptxas lesson, line {line}; error   : {what} (column 3)"


@pytest.mark.parametrize(
    ("body", "column"),
    [
        (".reg .b32 %r<4>;\n    add.s32 %r1, %r2, ];", 23),
        ("\n\tbra NOWHERE;", 2),
        ("\n/* one\ntwo */ @%p1 bra L; L:", 13),
        ("\n.reg .b32 x; mov.u32 x, 0x;", 25),
    ],
)
def test_an_error_names_the_column(device: Device, body: str, column: int) -> None:
    with pytest.raises(LinkError, match=rf"line \d+; error   : .*\(column {column}\)$"):
        device.load(entry(body))


ACCEPTED = [
    HEAD
    + '.file 1 "a.cu"\n'
    + entry(".loc 1 5 3\n.loc 1 6 1, function_name $L__x, inlined_at 1 5 3\n")[len(HEAD) :],
    entry('.pragma "nounroll"; .reg .pred %p, %q; .reg .b32 %r<2000000000>; mov.u32 %r1999999999, 1;'),
    entry(".reg .b64 a; mov.u64 a, 0XffU; mov.u64 a, 0777; mov.u64 a, 0b101; mov.u64 a, -1;"),
    entry(
        "{ .reg .b32 x; { .reg .b64 x; mov.u64 x, 1; } mov.u32 x, 1; }"
        "{ L: .reg .pred p; @p bra L; } { L: bra.uni M; M: }"
    ),
    HEAD + ".section .debug_str { .b8 0 { } }\n.section .debug_info\n{\n.b32 5\n}\n",
    HEAD
    + ".visible .entry a() .maxntid 128, 1, 1 .minnctapersm 2 { ret; }\n"
    + ".visible .entry b() .reqntid 8, 4 { ret; }",
    HEAD + ".weak .func (.reg .b32 r) f(.reg .b32 x) { add.u32 r, x, 1; ret; }",
    HEAD.replace("sm_75", "sm_90a, debug")
    + ".common .global .align 8 .u64 env; .alias f, g; .func g() { ret; }",
    HEAD + ".visible .entry k(.param .align 8 .b8 s[24], .param .u64 .ptr .global .align 4 p) { ret; }",
]


@pytest.mark.parametrize("text", ACCEPTED, ids=range(len(ACCEPTED)))
def test_accepted(device: Device, text: str) -> None:
    device.load(text)
    device.load(text.encode() + b"\0")  # a trailing NUL, as C strings have


def test_launches_are_checked(device: Device) -> None:
    module = device.load(ACCEPTED[5])
    assert module.kernels == ["a", "b"]
    assert module.info("a").max_threads == 128
    module(name="b", block=(8, 4))
    for arguments, message in [
        ({"name": "a", "block": 129}, "this kernel can have up to 128"),
        ({"name": "b", "block": 32}, "requires blocks of 8 x 4 x 1"),
        ({"name": "a", "block": 0}, "a block of 0 x 1 x 1"),
        ({"name": "a", "grid": (1, 0)}, "none may be zero"),
        ({"name": "a", "grid": (1, 65536)}, "a grid of 1 x 65536 x 1"),
        ({"name": "a", "shared": 70000}, "a block can have 65536"),
    ]:
        with pytest.raises(LaunchError, match=message) as caught:
            module(**arguments)
        assert caught.value.status is Status.INVALID_LAUNCH


def test_parameters_have_the_layout_of_c(device: Device) -> None:
    text = (
        HEAD
        + """.visible .entry k(.param .u8 a, .param .u64 b, .param .u16 c,
        .param .align 16 .b8 d[20], .param .f32 e) {
        .reg .b64 %rd<4>; .reg .b32 %r<8>; ld.param.u64 %rd1, [b]; ld.param.u8 %r1, [a];
        ld.param.s16 %r2, [c]; ld.param.v2.u32 {%r3, %r4}, [d+8];
        mov.b64 %rd2, d; cvta.param.u64 %rd2, %rd2; ld.u32 %r5, [%rd2+16];
        st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r5}; ret; }"""
    )
    module = device.load(text)
    assert module.params() == [(0, 1), (8, 8), (16, 2), (32, 20), (52, 4)]
    assert module.info().param_bytes == 56
    out = device.buffer(np.zeros(4, np.int32))
    words = np.arange(5, dtype=np.int32)
    structure = int.from_bytes(words.tobytes(), "little")
    module(200, out, -3, structure, 1.0, block=1)
    assert out.get().tolist() == [200, -3, 2, 4]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_mangled_text_is_refused_or_runs_within_bounds(device: Device, data: st.DataObject) -> None:
    """Bytes cut out, doubled, or replaced; whatever links is launched."""
    raw = bytearray(SIMPLE.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(raw) - 2))
        end = data.draw(st.integers(start, min(start + 20, len(raw))))
        change = data.draw(st.sampled_from(["cut", "double", "replace"]))
        piece = {
            "cut": b"",
            "double": bytes(raw[start:end]) * 2,
            "replace": data.draw(st.binary(max_size=6)),
        }[change]
        raw[start:end] = piece
    try:
        module = device.load(bytes(raw).replace(b"\0", b" "))
    except LinkError:
        return
    if module.kernels != ["k"] or [size for _, size in module.params()] != [8, 4, 8]:
        return
    values = device.buffer(np.arange(64, dtype=np.uint32))
    out = device.buffer(np.zeros(64, np.uint32))
    with contextlib.suppress(LaunchError):
        module(out, 64, values, grid=2, block=32)
    for buffer in (values, out):
        buffer.free()
    module.unload()


EXPRESSIONS = {
    "(1 << 4) | 3": 19,
    "1 + 2 * 3": 7,
    "-(5)": -5,
    "7 - 2 - 1": 4,
    "~0": -1,
    "!0 + !7": 1,
    "5 > 3 ? 7 : 8": 7,
    "0 ? 1 : 0 ? 2 : 3": 3,
    "-7 / 2": -3,
    "-7 % 3": -1,
    "1 == 1 && 2 != 2": 0,
    "0xF0 & 0x3C ^ 1": 0x31,
    "(.s64)12 >> 1": 6,
    "WARP_SZ": 32,
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_constant_expressions(device: Device, text: str) -> None:
    out = device.buffer(np.zeros(1, np.int32))
    # A unary operator first is an operand's sign, unless brackets say that an expression begins.
    body = f".reg .b32 r; .reg .b64 o; mov.s32 r, ({text}); ld.param.u64 o, [out]; st.global.s32 [o], r;"
    device.load(entry(body))(out, block=1)
    assert out.get()[0] == EXPRESSIONS[text]


def test_kernels_take_as_many_parameters_as_ptx_allows(device: Device) -> None:
    text = (
        HEAD
        + """.visible .entry k(.param .u64 out, .param .align 4 .b8 s[32756]) {
        .reg .b64 o; .reg .b32 r; ld.param.u64 o, [out]; ld.param.u32 r, [s+32752]; st.global.u32 [o], r;
        ret; }"""
    )
    module = device.load(text)
    assert module.info().param_bytes == 32764
    out = device.buffer(np.zeros(1, np.uint32))
    module(out, 77 << (8 * 32752), block=1)
    assert out.get()[0] == 77
