"""Functions: parameters, return values, recursion, pointers, and those that the runtime provides."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest

from tests.softgpu.bench import Device, LaunchError, LinkError, Status
from tests.softgpu.engine.elementwise import HEAD


def program(functions: str, body: str, params: str = ".param .u64 out") -> str:
    return f"""{HEAD}{functions}
.visible .entry k({params}) {{
    .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<32>; .reg .f64 %fd<4>;
    mov.u32 %r1, %tid.x;
    {body}
    ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r1, 4, %rd1; st.global.u32 [%rd1], %r0;
    ret;
}}"""


def run(device: Device, text: str, block: int = 32) -> np.ndarray:
    out = device.buffer(np.zeros(block, np.uint32))
    device.load(text)(out, block=block)
    return out.get()


LANES = np.arange(32, dtype=np.uint32)

CALL = """{{ .param .b32 a; .param .b32 b; st.param.b32 [a+0], {0};
    call.uni (b), {1}, (a); ld.param.b32 {2}, [b+0]; }}"""

SQUARE = """
.func (.param .b32 result) square(.param .b32 x) {
    .reg .b32 %r<4>; ld.param.u32 %r1, [x]; mul.lo.u32 %r2, %r1, %r1; st.param.b32 [result+0], %r2; ret;
}"""


def test_a_call_with_a_value_and_a_result(device: Device) -> None:
    assert np.array_equal(run(device, program(SQUARE, CALL.format("%r1", "square", "%r0"))), LANES**2)


def test_lanes_call_different_functions_and_return_at_different_times(device: Device) -> None:
    functions = (
        SQUARE
        + """
.func (.param .b32 result) collatz(.param .b32 x) {
    .reg .pred %p<3>; .reg .b32 %r<8>; ld.param.u32 %r1, [x]; mov.u32 %r2, 0;
LOOP: setp.le.u32 %p1, %r1, 1; @%p1 bra OUT; add.u32 %r2, %r2, 1; and.b32 %r3, %r1, 1;
        setp.eq.u32 %p2, %r3, 0;
    @%p2 bra EVEN; mad.lo.u32 %r1, %r1, 3, 1; bra LOOP;
EVEN: shr.u32 %r1, %r1, 1; bra LOOP;
OUT: st.param.b32 [result], %r2; ret;
}"""
    )
    body = f"""setp.lt.u32 %p1, %r1, 10; @%p1 bra FEW; {CALL.format("%r1", "collatz", "%r0")} bra JOIN;
        FEW: {CALL.format("%r1", "square", "%r0")}
        JOIN: activemask.b32 %r9; setp.ne.u32 %p2, %r9, -1; @%p2 add.u32 %r0, %r0, 5000;"""

    def collatz(n: int) -> int:
        steps = 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    want = [lane * lane if lane < 10 else collatz(lane) for lane in range(32)]
    assert run(device, program(functions, body)).tolist() == want


def test_lanes_return_from_different_places_with_their_own_values(device: Device) -> None:
    functions = """
.func (.reg .b32 first, .reg .b64 second) parts(.reg .b32 x) {
    .reg .pred %p<4>; .reg .b32 %r<4>;
    mov.u32 first, 1; cvt.u64.u32 second, x;
    setp.lt.u32 %p1, x, 8; @%p1 ret;
    mov.u32 first, 2; and.b32 %r1, x, 1; setp.eq.u32 %p2, %r1, 0; @%p2 bra EVEN;
LOOP: add.u64 second, second, 100; sub.u32 x, x, 2; setp.gt.u32 %p3, x, 20; @!%p3 ret; bra LOOP;
EVEN: mov.u32 first, 3; mov.u64 second, 7;
}"""
    body = """.reg .b64 %wide; .reg .b32 %low;
        call (%r0, %wide), parts, (%r1); cvt.u32.u64 %low, %wide; mad.lo.u32 %r0, %r0, 10000, %low;
        activemask.b32 %r9; setp.ne.u32 %p2, %r9, -1; @%p2 add.u32 %r0, %r0, 500000;"""

    def parts(x: int) -> int:
        if x < 8:
            return 10000 + x
        if x % 2 == 0:
            return 30007
        return 20000 + x + 100 * max(1, (x - 20 + 1) // 2)

    assert run(device, program(functions, body)).tolist() == [parts(lane) for lane in range(32)]


FACTORIAL = """
.func (.param .b64 result) factorial(.param .b64 n) {
    .reg .pred %p1; .reg .b64 %rd<8>; ld.param.u64 %rd1, [n]; setp.gt.u64 %p1, %rd1, 1; @%p1 bra MORE;
    st.param.b64 [result], 1; ret;
MORE: sub.u64 %rd2, %rd1, 1;
    { .param .b64 a; .param .b64 b; st.param.b64 [a], %rd2; call (b), factorial, (a);
        ld.param.b64 %rd3, [b]; }
    mul.lo.u64 %rd4, %rd3, %rd1; st.param.b64 [result], %rd4; ret;
}"""


def factorial_call(start: str) -> str:
    return f"""{start} {{ .param .b64 a; .param .b64 b; st.param.b64 [a], %rd9; call (b), factorial, (a);
        ld.param.b64 %rd10, [b]; }} cvt.u32.u64 %r0, %rd10;"""


def test_recursion(device: Device) -> None:
    got = run(device, program(FACTORIAL, factorial_call("cvt.u64.u32 %rd9, %r1;")))
    want, value = [], 1
    for n in range(32):
        value *= max(n, 1)
        want.append(value & 0xFFFFFFFF)
    assert got.tolist() == want


def test_endless_recursion_overflows_the_stack(device: Device) -> None:
    with pytest.raises(LaunchError, match="overflows the stack") as caught:
        run(device, program(FACTORIAL, factorial_call("mov.u64 %rd9, 100000;")))
    assert caught.value.status is Status.STACK_OVERFLOW


def test_structures_and_local_arrays_by_value(device: Device) -> None:
    functions = """
.func (.param .align 8 .b8 result[16]) swap(.param .align 8 .b8 pair[16], .param .b32 add) {
    .reg .b64 %rd<8>; .reg .b32 %r<4>; .local .align 8 .b8 depot[32]; ld.param.u32 %r1, [add];
        cvt.u64.u32 %rd5, %r1;
    ld.param.u64 %rd1, [pair]; ld.param.u64 %rd2, [pair+8]; mov.u64 %rd3, depot; st.local.u64 [%rd3+8], %rd1;
    cvta.local.u64 %rd4, %rd3; ld.u64 %rd6, [%rd4+8]; add.u64 %rd6, %rd6, %rd5;
    st.param.b64 [result], %rd2; st.param.b64 [result+8], %rd6; ret;
}"""
    body = """.local .align 8 .b8 mine[8]; mov.u64 %rd20, mine; st.local.u32 [%rd20], %r1;
    { .param .align 8 .b8 a[16]; .param .b32 n; .param .align 16 .b8 b[16]; cvt.u64.u32 %rd2, %r1;
        st.param.b64 [a], %rd2;
      st.param.b64 [a+8], 1000; st.param.b32 [n], 7; call.uni (b), swap, (a, n);
      ld.param.v2.b64 {%rd3, %rd4}, [b]; }
    add.u64 %rd5, %rd3, %rd4; cvt.u32.u64 %r0, %rd5; ld.local.u32 %r5, [%rd20]; add.u32 %r0, %r0, %r5;"""
    assert np.array_equal(run(device, program(functions, body)), 2 * LANES + 1007)


def test_calls_through_pointers(device: Device) -> None:
    functions = (
        SQUARE
        + """
.func (.param .b32 result) twice(.param .b32 x) {
    .reg .b32 %r<4>; ld.param.u32 %r1, [x]; shl.b32 %r2, %r1, 1; st.param.b32 [result], %r2; ret; }
.global .align 8 .u64 table[2] = {square, twice};"""
    )
    body = """and.b32 %r2, %r1, 1; mov.u64 %rd2, table; mad.wide.u32 %rd2, %r2, 8, %rd2;
        ld.global.u64 %rd3, [%rd2];
        proto: .callprototype (.param .b32 _) _ (.param .b32 _);
        { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), %rd3, (a), proto;
        ld.param.b32 %r0, [b]; }"""
    assert np.array_equal(run(device, program(functions, body)), np.where(LANES % 2, 2 * LANES, LANES**2))


def test_a_call_through_a_wild_pointer_is_an_error(device: Device) -> None:
    body = """mov.u64 %rd3, 12345; proto: .callprototype _ ();
        call %rd3, (), proto; mov.u32 %r0, 0;"""
    with pytest.raises(LaunchError, match="function pointer") as caught:
        run(device, program("", body.replace("_ ()", "_ ()")))
    assert caught.value.status is Status.INVALID_PC


def test_shared_variables_of_functions_belong_to_the_kernels_that_call_them(device: Device) -> None:
    functions = """
.shared .align 4 .b8 unused[30000];
.func touch() { .reg .b32 %r<3>; .shared .align 4 .b8 inside[128]; mov.u32 %r1, %tid.x;
        shl.b32 %r1, %r1, 2; mov.u32 %r2, inside;
    add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], %r1; ret; }"""
    module = device.load(program(functions, "call touch; mov.u32 %r0, 1;"))
    assert module.info().shared_bytes == 128


VPRINTF = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);"


def test_printf(device: Device) -> None:
    text = "lane %d of %s: %5.2f %lld %x %c%%\n"
    data = ", ".join(str(b) for b in text.encode() + b"\0")
    word = ", ".join(str(b) for b in b"warp\0")
    functions = (
        VPRINTF
        + f".global .align 1 .b8 format[{len(text) + 1}] = {{{data}}}; .global .b8 word[5] = {{{word}}};"
    )
    body = """.local .align 8 .b8 buffer[48]; mov.u64 %rd2, buffer; cvta.local.u64 %rd3, %rd2;
        st.u32 [%rd3], %r1;
        mov.u64 %rd4, word; st.u64 [%rd3+8], %rd4; cvt.rn.f64.u32 %fd1, %r1;
        mul.f64 %fd1, %fd1, 0d3FD0000000000000; st.f64 [%rd3+16], %fd1;
        mov.u64 %rd5, -5000000000; st.u64 [%rd3+24], %rd5; st.u32 [%rd3+32], 255; st.u32 [%rd3+36], 33;
        mov.u64 %rd6, format;
        setp.gt.u32 %p1, %r1, 2; mov.u32 %r0, 0; @%p1 bra QUIET;
        { .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %rd6; st.param.b64 [a], %rd3;
          call.uni (r), vprintf, (f, a); ld.param.b32 %r0, [r]; }
        QUIET:"""
    out = device.buffer(np.zeros(32, np.uint32))
    printed = device.load(program(functions, body))(out)
    assert printed == "".join(f"lane {i} of warp: {i / 4:5.2f} -5000000000 ff !%\n" for i in range(3))
    assert out.get()[0] == 6  # CUDA's printf returns the number of arguments


def test_printf_of_a_wild_pointer_is_an_error(device: Device) -> None:
    body = """{ .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], 64; st.param.b64 [a], 64;
        call (r), vprintf, (f, a); } mov.u32 %r0, 0;"""
    with pytest.raises(LaunchError, match="printf was given an address that is out of bounds"):
        run(device, program(VPRINTF, body))


def test_a_failed_assertion_says_what_and_where(device: Device) -> None:
    def text(name: str, value: str) -> str:
        data = ", ".join(str(b) for b in value.encode() + b"\0")
        return f".global .align 1 .b8 {name}[{len(value) + 1}] = {{{data}}};"

    functions = (
        text("message", "x > 0")
        + text("file", "lesson.cu")
        + text("place", "run")
        + ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l,"
        + ".param .b64 n, .param .b64 c) .noreturn;"
    )
    body = """setp.ne.u32 %p1, %r1, 7; mov.u32 %r0, 0; @%p1 bra FINE;
        mov.u64 %rd2, message; mov.u64 %rd3, file; mov.u64 %rd4, place;
        { .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 c;
        st.param.b64 [m], %rd2; st.param.b64 [f], %rd3;
        st.param.b32 [l], 42; st.param.b64 [n], %rd4; st.param.b64 [c], 1;
        call __assertfail, (m, f, l, n, c); } FINE:"""
    with pytest.raises(
        LaunchError, match=r"thread \(7,0,0\): assertion `x > 0` failed in run at lesson.cu:42"
    ) as caught:
        run(device, program(functions, body))
    assert caught.value.status is Status.ASSERTION


def test_malloc_and_free_on_the_device(device: Device) -> None:
    functions = ".extern .func (.param .b64 r) malloc(.param .b64 n); .extern .func free(.param .b64 p);"
    body = """{ .param .b64 n; .param .b64 r; st.param.b64 [n], 64; call (r), malloc, (n);
        ld.param.b64 %rd2, [r]; }
        st.u32 [%rd2+60], %r1; ld.u32 %r0, [%rd2+60]; { .param .b64 p; st.param.b64 [p], %rd2;
        call free, (p); }"""
    before = device.used
    out = device.buffer(np.zeros(32, np.uint32))
    device.load(program(functions, body))(out)
    assert np.array_equal(out.get(), LANES)
    out.free()
    assert device.used == before


FREE = ".extern .func (.param .b64 r) malloc(.param .b64 n); .extern .func free(.param .b64 p);"


def test_free_takes_no_memory_that_has_another_owner(device: Device) -> None:
    out = device.buffer(np.zeros(32, np.uint32))
    body = "mov.u32 %r0, %r1; { .param .b64 p; st.param.b64 [p], %rd1; call free, (p); }"
    module = device.load(program(FREE, f"ld.param.u64 %rd1, [out]; {body}"))
    before = device.used
    with pytest.raises(
        LaunchError, match=f"free of {out.address:#x}, which malloc .* has not given"
    ) as caught:
        module(out)
    assert caught.value.status is Status.ILLEGAL_ADDRESS
    assert device.used == before


def test_memory_of_a_kernel_is_freed_once(device: Device) -> None:
    free = "{ .param .b64 p; st.param.b64 [p], %rd2; call free, (p); }"
    body = """{ .param .b64 n; .param .b64 r; st.param.b64 [n], 64; call (r), malloc, (n);
        ld.param.b64 %rd2, [r]; }"""
    with pytest.raises(LaunchError, match="or which is free already"):
        run(device, program(FREE, f"mov.u32 %r0, 0; {body} {free} {free}"))


def test_trap_stops_the_kernel(device: Device) -> None:
    with pytest.raises(LaunchError, match=r"thread \(3,0,0\): the kernel executed trap") as caught:
        run(device, program("", "mov.u32 %r0, 0; setp.eq.u32 %p1, %r1, 3; @%p1 trap;"))
    assert caught.value.status is Status.TRAP


LIBRARY = f"""{HEAD}
.visible .func (.param .b32 result) square(.param .b32 x) {{
    .reg .b32 %r<4>; ld.param.u32 %r1, [x]; mul.lo.u32 %r2, %r1, %r1; ld.global.u32 %r3, [bias];
        add.u32 %r2, %r2, %r3;
    st.param.b32 [result], %r2; ret; }}
.visible .global .u32 bias = 3;
.func helper() {{ ret; }}"""


def test_several_texts_link_into_one_program(device: Device) -> None:
    main = program(
        ".extern .func (.param .b32 result) square(.param .b32 x); .extern .global .u32 bias;"
        ".func helper() { ret; }",
        CALL.format("%r1", "square", "%r0")
        + "call helper; ld.global.u32 %r5, [bias]; add.u32 %r0, %r0, %r5;",
    )
    out = device.buffer(np.zeros(32, np.uint32))
    device.load(main, LIBRARY)(out)
    assert np.array_equal(out.get(), LANES**2 + 6)
    device.load(LIBRARY, main)(out)
    assert np.array_equal(out.get(), LANES**2 + 6)


def test_weak_definitions_give_way(device: Device) -> None:
    weak = LIBRARY.replace(".visible", ".weak").replace("mul.lo.u32 %r2, %r1, %r1", "mov.u32 %r2, 9")
    main = program(
        ".extern .func (.param .b32 r) square(.param .b32 x);", CALL.format("%r1", "square", "%r0")
    )
    out = device.buffer(np.zeros(32, np.uint32))
    for order in ((main, weak, LIBRARY), (main, LIBRARY, weak)):
        device.load(*order)(out)
        assert np.array_equal(out.get(), LANES**2 + 3)
    device.load(main, weak, weak)(out)
    assert set(out.get().tolist()) == {12}


def test_link_errors_name_input_and_symbol(device: Device) -> None:
    with pytest.raises(
        LinkError, match=r"b\.ptx, line \d+; error   : bias is defined twice, here and in another input"
    ):
        device.load(LIBRARY, LIBRARY, names=["a.ptx", "b.ptx"])
    main = program(
        ".extern .func (.param .b32 r) missing(.param .b32 x);", CALL.format("%r1", "missing", "%r0")
    )
    with pytest.raises(LinkError, match=r"m\.ptx, line \d+; error   : undefined function missing"):
        device.load(main, names=["m.ptx"])
    with pytest.raises(LinkError, match=r"line \d+; error   : undefined variable nowhere"):
        device.load(HEAD + ".extern .global .u32 nowhere;")
    module = device.load(main, allow_undefined=True)
    out = device.buffer(np.zeros(32, np.uint32))
    with pytest.raises(LaunchError, match="call of the undefined function missing"):
        module(out)


@pytest.mark.parametrize(
    ("pattern", "arguments", "want"),
    [
        ("%5.2f|%-8.3e|%+g|%#x|%o", [3.14159, 1234.5, 0.5, 255, 8], " 3.14|1.234e+03|+0.5|0xff|10"),
        ("%lld %llu %ld %zu", [-(1 << 62), 1 << 63, -5, 7], "-4611686018427387904 9223372036854775808 -5 7"),
        ("%d %u %hd %hhu %hhd", [-1, -1, 65537, 257, 200], "-1 4294967295 1 1 -56"),
        ("%c%c|%5c|%-3c|", [72, 105, 33, 46], "Hi|    !|.  |"),
        ("%*d|%-*d|%.*f|%.*f", [5, 42, -4, 7, 2, 3.14159, -1, 2.5], "   42|7   |3.14|2.500000"),
        ("100%% %d%", [3], "100% 3%"),
        ("%y %5q", [], "%y %5q"),
        ("%p %p", [0x1234, 0], "0x1234 (nil)"),
        ("%a %G %F %e", [1.0, 1e-10, float("inf"), float("nan")], "0x1p+0 1E-10 INF nan"),
        ("%05d|% d|%+d|%x|%X|%.3d", [42, 42, 42, 48879, 48879, 7], "00042| 42|+42|beef|BEEF|007"),
        ("no arguments", [], "no arguments"),
        ("%f %.0f %.10f", [0.1, 2.5, 1 / 3], "0.100000 2 0.3333333333"),
        ("%s", [0], "(null)"),
    ],
)
def test_printf_is_as_cs(device: Device, pattern: str, arguments: list[int | float], want: str) -> None:
    sizes = argument_sizes(pattern)
    lines, at = [], 0
    for value, size in zip(arguments, sizes, strict=True):
        at = (at + size - 1) // size * size
        raw = (
            struct.pack("<d", value)
            if isinstance(value, float)
            else (value % (1 << 8 * size)).to_bytes(size, "little")
        )
        lines.append(f"st.u{8 * size} [%rd3+{at}], {int.from_bytes(raw, 'little')};")
        at += size
    data = ", ".join(str(b) for b in pattern.encode() + b"\0")
    functions = VPRINTF + f".global .align 1 .b8 format[{len(pattern) + 1}] = {{{data}}};"
    body = f""".local .align 8 .b8 buffer[96]; mov.u64 %rd2, buffer; cvta.local.u64 %rd3, %rd2;
    {" ".join(lines)}
        mov.u64 %rd6, format; setp.gt.u32 %p1, %r1, 0; mov.u32 %r0, 0; @%p1 bra QUIET;
        {{ .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %rd6; st.param.b64 [a], %rd3;
          call.uni (r), vprintf, (f, a); ld.param.b32 %r0, [r]; }}
        QUIET:"""
    out = device.buffer(np.zeros(32, np.uint32))
    assert device.load(program(functions, body))(out) == want
    assert out.get()[0] == len(arguments)


def argument_sizes(pattern: str) -> list[int]:
    """How many bytes each argument takes after C's promotions."""
    sizes = []
    for stars, length, kind in re.findall(
        r"%[-+ #0]*([\d*]*\.?[\d*]*)(hh|h|ll|l|z)?([diouxXeEfFgGaAcps%])", pattern
    ):
        if kind == "%":
            continue
        sizes += [4] * stars.count("*")
        sizes.append(8 if kind in "eEfFgGaAps" or length in ("l", "ll", "z") else 4)
    return sizes


def test_a_fault_names_the_source_line_where_the_text_has_it(device: Device) -> None:
    body = """.loc 1 7 3
        mov.u32 %r0, 0; setp.eq.u32 %p1, %r1, 3;
        .loc 1 9 5, function_name $L__info, inlined_at 1 7 3
        @%p1 trap;
        .loc 1 12 1
        mov.u32 %r0, 1;"""
    with pytest.raises(LaunchError, match=r"trap; PTX line \d+ of input0, from lesson\.cu:9$"):
        run(device, program("", body) + '\n.file 1 "lesson.cu", 1700000000, 1234\n')


DEVICE_RUNTIME = """
.extern .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope);
.extern .func (.param .b32 error) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);
"""


def test_the_device_runtime_comes_with_the_engine(device: Device) -> None:
    """As numba calls it for grid.sync(), with libcudadevrt linked in."""
    body = """{ .param .b32 s; .param .b64 h; st.param.b32 [s], 1; call (h), cudaCGGetIntrinsicHandle, (s);
        ld.param.b64 %rd2, [h]; }
        mov.u32 %r2, %ctaid.x; setp.ne.u32 %p1, %r2, 0; ld.param.u64 %rd4, [out];
        @!%p1 st.global.u32 [%rd4+4], 5;
        { .param .b64 h; .param .b32 f; .param .b32 e; st.param.b64 [h], %rd2; st.param.b32 [f], 0;
        call (e), cudaCGSynchronize, (h, f); ld.param.b32 %r3, [e]; }
        ld.global.u32 %r0, [%rd4+4]; add.u32 %r0, %r0, %r3; setp.eq.u32 %p2, %r1, 1; @%p2 mov.u32 %r0, 5;"""
    out = device.buffer(np.zeros(32, np.uint32))
    module = device.load(program(DEVICE_RUNTIME, body))
    with device.cooperative():
        module(out, grid=5, block=32)
    assert set(out.get().tolist()) == {5}
    module(out, grid=1, block=32)  # no workspace: it says so
    assert set(out.get().tolist()) <= {5, 6}
