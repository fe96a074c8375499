"""Kernels that launch kernels: what runs, in which order, and what is refused. In PTX, as nvcc writes it."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.softgpu.bench import Device, LaunchError, LinkError, Status
from tests.softgpu.engine.elementwise import HEAD

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "ptx.md"
NOTHING, TAIL, FIRE = 0, 3, 4  # streams
SUCCESS, INVALID_VALUE, INVALID_CONFIGURATION, INVALID_PITCH, INVALID_DIRECTION = 0, 1, 9, 12, 21
TOO_DEEP, TOO_MANY_PENDING, NO_KERNEL, INVALID_DEVICE, INVALID_HANDLE = 65, 69, 98, 101, 400
PENDING_LAUNCHES, MOST_DEPTH = 2048, 24

FUNCTIONS = {  # a d is a parameter of 32 bits, a q one of 64, a t three of 32; the first is what it returns
    "__cudaCDP2GetParameterBufferV2": "q qttd",
    "__cudaCDP2LaunchDeviceV2": "d qq",
    "cudaGetParameterBuffer": "q qq",
    "cudaLaunchDevice": "d qqttdq",
    "__cudaCDP2GetLastError": "d ",
    "__cudaCDP2PeekAtLastError": "d ",
    "__cudaCDP2GetErrorString": "q d",
    "__cudaCDP2GetErrorName": "q d",
    "__cudaCDP2StreamCreateWithFlags": "d qd",
    "__cudaCDP2StreamDestroy": "d q",
    "__cudaCDP2EventCreateWithFlags": "d qd",
    "__cudaCDP2EventDestroy": "d q",
    "__cudaCDP2EventRecord": "d qq",
    "__cudaCDP2StreamWaitEvent": "d qqd",
    "__cudaCDP2Malloc": "d qq",
    "__cudaCDP2Free": "d q",
    "__cudaCDP2MemcpyAsync": "d qqqdq",
    "__cudaCDP2Memcpy2DAsync": "d qqqqqqdq",
    "__cudaCDP2MemsetAsync": "d qdqq",
    "__cudaCDP2Memset2DAsync": "d qqdqqq",
    "__cudaCDP2DeviceGetAttribute": "d qdd",
    "vprintf": "d qq",
}


def declaration(function: str, types: str) -> str:
    kinds = {"d": ".param .b32 {}", "q": ".param .b64 {}", "t": ".param .align 4 .b8 {}[12]"}
    params = ", ".join(kinds[kind].format(f"p{i}") for i, kind in enumerate(types[2:]))
    return f".extern .func ({kinds[types[0]].format('r')}) {function}({params});\n"


DECLARED = HEAD + "".join(declaration(*function) for function in FUNCTIONS.items())

REGISTERS = ".reg .b32 %r<32>; .reg .b64 %rd<32>, %buffer; .reg .pred %p<8>;"

# append(log, value): log[0] counts, log[1 + n] is the n-th value. One thread a block logs.
APPEND = """
.visible .entry append(.param .u64 log, .param .u32 value) {
    .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p;
    mov.u32 %r0, %tid.x; setp.ne.u32 %p, %r0, 0; @%p ret;
    ld.param.u64 %rd0, [log]; ld.param.u32 %r1, [value];
    atom.add.u32 %r2, [%rd0], 1; mad.wide.u32 %rd1, %r2, 4, %rd0; st.u32 [%rd1+4], %r1; ret;
}
"""


def dim(name: str, extent: tuple[int | str, ...]) -> str:
    stores = "".join(f"st.param.b32 [{name}+{4 * i}], {value}; " for i, value in enumerate(extent))
    return f".param .align 4 .b8 {name}[12]; {stores}"


def launch(
    kernel: str,
    stores: str = "",
    *,
    stream: int | str = NOTHING,
    grid: tuple[int | str, int | str, int | str] = (1, 1, 1),
    block: tuple[int | str, int | str, int | str] = (1, 1, 1),
    shared: int | str = 0,
    code: str = "%r31",
) -> str:
    """What nvcc writes for ``kernel<<<grid, block, shared, stream>>>``; ``stores`` fills [%buffer]. `code` is
    the launch's error, or -1 where there was no buffer."""
    return f"""{{
    .reg .pred %none; .reg .b64 %kernel;
    .param .b64 f; .param .b32 s; .param .b64 r; .param .b64 p; .param .b64 t; .param .b32 e;
    mov.u64 %kernel, {kernel}; st.param.b64 [f], %kernel; {dim("g", grid)} {dim("b", block)}
    st.param.b32 [s], {shared};
    call.uni (r), __cudaCDP2GetParameterBufferV2, (f, g, b, s);
    ld.param.b64 %buffer, [r];
    mov.u32 {code}, -1;
    setp.eq.s64 %none, %buffer, 0;
    @%none bra DONE;
    {stores}
    st.param.b64 [p], %buffer; st.param.b64 [t], {stream};
    call.uni (e), __cudaCDP2LaunchDeviceV2, (p, t);
    ld.param.b32 {code}, [e];
DONE: }}
"""


def log(value: int | str, **how) -> str:
    return launch("append", f"st.u64 [%buffer], %rd0; st.u32 [%buffer+8], {value};", block=(32, 1, 1), **how)


def call(function: str, *arguments: tuple[str, int | str], result: str = "%r31", bits: str = "b32") -> str:
    """A call of the device runtime's with arguments of 32 or 64 bits: ("b64", "%rd1")."""
    params = "".join(
        f".param .{kind} a{i}; st.param.{kind} [a{i}], {value}; " for i, (kind, value) in enumerate(arguments)
    )
    names = ", ".join(f"a{i}" for i in range(len(arguments)))
    return f"""{{ {params} .param .{bits} r;
    call.uni (r), {function}, ({names}); ld.param.{bits} {result}, [r]; }}
"""


def wide(arguments: str) -> list[tuple[str, str]]:
    """Arguments of 64 bits, but those with a d before them."""
    return [("b32", one[1:]) if one.startswith("d") else ("b64", one) for one in arguments.split()]


def parent(body: str, name: str = "parent", params: str = ".param .u64 log") -> str:
    return f"""
.visible .entry {name}({params}) {{ {REGISTERS}
    ld.param.u64 %rd0, [log];
    {body}
    ret;
}}"""


def logged(
    device: Device, text: str, *, room: int = 8192, grid: int = 1, block: int = 1, name: str = "parent"
):
    """What the parent's launches have logged, and what was printed."""
    values = device.buffer(np.zeros(room, np.uint32))
    printed = device.load(DECLARED + APPEND + text)(values, grid=grid, block=block, name=name)
    found = values.get()
    return found[1 : 1 + found[0]].tolist(), printed


def test_a_launch_gets_its_grid_its_block_and_its_parameters(device: Device) -> None:
    child = """
.visible .entry child(.param .u64 log, .param .u8 small, .param .align 8 .b8 big[16], .param .u16 last) {
    .reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .b16 %h<4>;
    ld.param.u64 %rd0, [log]; ld.param.u8 %r0, [small]; ld.param.u64 %rd1, [big+8]; ld.param.u16 %h0, [last];
    mov.u32 %r1, %nctaid.x; mov.u32 %r2, %nctaid.y; mov.u32 %r3, %nctaid.z;
    mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y; mov.u32 %r6, %ntid.z; mov.u32 %r7, %dynamic_smem_size;
    st.u32 [%rd0], %r1; st.u32 [%rd0+4], %r2; st.u32 [%rd0+8], %r3; st.u32 [%rd0+12], %r4;
    st.u32 [%rd0+16], %r5; st.u32 [%rd0+20], %r6; st.u32 [%rd0+24], %r7; st.u32 [%rd0+28], %r0;
    st.u64 [%rd0+32], %rd1; cvt.u32.u16 %r8, %h0; st.u32 [%rd0+40], %r8; ret;
}"""
    stores = """st.u64 [%buffer], %rd0; mov.u32 %r0, 200; st.u8 [%buffer+8], %r0;
        mov.u64 %rd1, 0x123456789; st.u64 [%buffer+24], %rd1; mov.u32 %r0, 65535; st.u16 [%buffer+32], %r0;"""
    body = launch("child", stores, grid=(2, 3, 4), block=(5, 6, 7), shared=1000)
    values = device.buffer(np.zeros(11, np.uint32))
    device.load(DECLARED + child + parent(body))(values, block=1, name="parent")
    assert values.get().tolist() == [2, 3, 4, 5, 6, 7, 1000, 200, 0x23456789, 1, 65535]


def test_children_run_after_their_parent_in_order_of_their_launches(device: Device) -> None:
    own = "atom.add.u32 %r0, [%rd0], 1; mad.wide.u32 %rd1, %r0, 4, %rd0; st.u32 [%rd1+4], 99;"
    got, _ = logged(device, parent(log(1) + log(2, stream=FIRE) + log(3) + own))
    assert got == [99, 1, 2, 3]


def test_a_tail_launch_runs_after_all_else_that_its_grid_has_launched(device: Device) -> None:
    inner = parent(log(10) + log(12, stream=TAIL) + log(11), "inner")
    give = "st.u64 [%buffer], %rd0;"
    body = log(3, stream=TAIL) + log(4, stream=TAIL) + launch("inner", give) + log(2)
    got, _ = logged(device, inner + parent(body))
    assert got == [10, 11, 12, 2, 3, 4]


def test_a_child_is_complete_only_with_its_own_children(device: Device) -> None:
    give = "st.u64 [%buffer], %rd0;"
    grand = parent(log(1) + log(2, stream=TAIL), "grand")
    middle = parent(launch("grand", give) + log(3, stream=FIRE), "middle")
    got, _ = logged(device, grand + middle + parent(launch("middle", give) + log(4)))
    assert got == [1, 2, 3, 4]


def test_every_thread_of_every_block_may_launch(device: Device) -> None:
    body = "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r0, %r1, 100, %r0;" + log("%r0")
    got, _ = logged(device, parent(body), grid=20, block=100)
    assert sorted(got) == list(range(2000))


def test_a_kernel_is_launched_through_a_pointer_of_device_memory(device: Device) -> None:
    table = ".global .u64 table[2] = {append, append};"
    body = "mov.u64 %rd5, table; ld.u64 %rd5, [%rd5+8];" + log(7).replace(
        "mov.u64 %kernel, append", "mov.u64 %kernel, %rd5"
    )
    assert logged(device, table + parent(body))[0] == [7]


def test_the_older_calls_launch_too(device: Device) -> None:
    body = f"""{{ .param .b64 a; .param .b64 n; .param .b64 r; st.param.b64 [a], 8; st.param.b64 [n], 12;
    call.uni (r), cudaGetParameterBuffer, (a, n); ld.param.b64 %buffer, [r]; }}
    st.u64 [%buffer], %rd0; st.u32 [%buffer+8], 5; mov.u64 %rd2, append;
    {{ .param .b64 f; .param .b64 p; .param .b32 n; .param .b64 s; .param .b32 e;
    st.param.b64 [f], %rd2; st.param.b64 [p], %buffer; {dim("g", (1, 1, 1))} {dim("b", (1, 1, 1))}
    st.param.b32 [n], 0; st.param.b64 [s], 0;
    call.uni (e), cudaLaunchDevice, (f, p, g, b, n, s); }}"""
    assert logged(device, parent(body))[0] == [5]


def test_a_kernel_may_launch_itself(device: Device) -> None:
    again = launch("parent", "st.u64 [%buffer], %rd0; st.u32 [%buffer+8], %r0;")
    body = f"""ld.param.u32 %r0, [left]; {log("%r0")} ld.param.u32 %r0, [left];
    setp.eq.u32 %p0, %r0, 0; @%p0 ret; sub.u32 %r0, %r0, 1; {again}"""
    text = parent(body, params=".param .u64 log, .param .u32 left")
    values = device.buffer(np.zeros(64, np.uint32))
    device.load(DECLARED + APPEND + text)(values, 10, block=1, name="parent")
    assert values.get()[:12].tolist() == [11, *range(10, -1, -1)]


def test_launches_without_end_stop_at_the_deepest_that_a_gpu_has(device: Device) -> None:
    again = (
        launch("parent", "st.u64 [%buffer], %rd0;") + call("__cudaCDP2GetLastError") + "mov.u32 %r5, %r31;"
    )
    own = "atom.add.u32 %r0, [%rd0], 1; mad.wide.u32 %rd1, %r0, 4, %rd0; st.u32 [%rd1+4], %r5;"
    got, printed = logged(device, parent(again + own))
    assert got == [SUCCESS] * MOST_DEPTH + [TOO_DEEP]
    assert "gpu-kernels: kernel parent, block (0,0,0), thread (0,0,0): a launch was refused" in printed
    assert "25 launches deep; a GPU allows 24 (cudaErrorLaunchMaxDepthExceeded)" in printed


def test_more_launches_than_may_be_pending_are_refused_by_name(device: Device) -> None:
    text = parent(
        log(1)
        + call("__cudaCDP2PeekAtLastError", result="%r1")
        + f"""
        setp.eq.u32 %p0, %r1, {TOO_MANY_PENDING}; @!%p0 ret;
        mov.u32 %r0, 1; red.add.u32 [%rd0+32000], %r0;"""
    )
    values = device.buffer(np.zeros(8192, np.uint32))
    printed = device.load(DECLARED + APPEND + text)(values, grid=3, block=1000, name="parent")
    got = values.get()
    assert (got[0], got[8000]) == (PENDING_LAUNCHES, 3000 - PENDING_LAUNCHES)
    assert "2048 launches are pending (cudaErrorLaunchPendingCountExceeded)" in printed
    assert printed.count("gpu-kernels:") == 1


def test_pending_launches_make_room_when_they_begin(device: Device) -> None:
    many = parent(log(1), "many")
    give = "st.u64 [%buffer], %rd0;"
    body = "".join(launch("many", give, grid=(2, 1, 1), block=(1000, 1, 1)) for _ in range(4))
    values = device.buffer(np.zeros(16384, np.uint32))
    device.load(DECLARED + APPEND + many + parent(body))(values, block=1, name="parent")
    assert values.get()[0] == 8000


def test_buffers_that_are_never_launched_are_given_back(device: Device) -> None:
    body = call("cudaGetParameterBuffer", ("b64", 8), ("b64", 4000), result="%rd1", bits="b64")
    module = device.load(DECLARED + APPEND + parent(body))
    values = device.buffer(np.zeros(64, np.uint32))
    before = device.used
    module(values, grid=2, block=1000, name="parent")
    assert device.used == before


WRONG = {
    "no blocks": (launch("append", grid=(0, 1, 1)), INVALID_CONFIGURATION, "a grid of 0 x 1 x 1 blocks"),
    "too many blocks": (launch("append", grid=(1, 65536, 1)), INVALID_CONFIGURATION, "65535 are possible"),
    "no threads": (launch("append", block=(1, 0, 1)), INVALID_CONFIGURATION, "a block of 1 x 0 x 1 threads"),
    "too many threads": (launch("append", block=(1025, 1, 1)), INVALID_CONFIGURATION, "can have up to 1024"),
    "a product of 0": (launch("append", block=(65536, 65536, 1)), INVALID_CONFIGURATION, "up to 1024"),
    "too much shared memory": (launch("append", shared=70000), INVALID_CONFIGURATION, "70000 bytes of"),
    "all shared memory": (launch("append", shared="0xffffffff"), INVALID_CONFIGURATION, "bytes of shared"),
    "a null kernel": (launch("0"), NO_KERNEL, "what is no kernel of its module"),
    "a pointer to data": (launch("%rd0"), NO_KERNEL, "what is no kernel of its module"),
    "a device function": (launch("helper"), NO_KERNEL, "what is no kernel of its module"),
    "a made-up function": (launch("0x4000000000000fff"), NO_KERNEL, "what is no kernel of its module"),
    "a made-up stream": (launch("append", stream=77), INVALID_HANDLE, "its stream is not one"),
    "a made-up buffer": (
        call("__cudaCDP2LaunchDeviceV2", ("b64", "%rd0"), ("b64", 0)),
        INVALID_VALUE,
        "parameters that cudaGetParameterBuffer has not given",
    ),
    "a null buffer": (
        call("__cudaCDP2LaunchDeviceV2", ("b64", 0), ("b64", 0)),
        INVALID_VALUE,
        "parameters that cudaGetParameterBuffer has not given",
    ),
    "a buffer twice": (
        log(1) + call("__cudaCDP2LaunchDeviceV2", ("b64", "%buffer"), ("b64", 0)),
        INVALID_VALUE,
        "or that were launched already",
    ),
    "a buffer of no kernel": (
        call("cudaGetParameterBuffer", ("b64", 8), ("b64", 16), result="%buffer", bits="b64")
        + call("__cudaCDP2LaunchDeviceV2", ("b64", "%buffer"), ("b64", 0)),
        INVALID_VALUE,
        "parameters that cudaGetParameterBuffer has not given",
    ),
    "too large a buffer": (
        call("cudaGetParameterBuffer", ("b64", 8), ("b64", 1 << 40), result="%rd1", bits="b64"),
        INVALID_VALUE,
        "more than 32764 bytes of parameters",
    ),
    "a copy from the host": (
        call("__cudaCDP2MemcpyAsync", *wide("%rd0 %rd0 4 d1 0")),
        INVALID_DIRECTION,
        "not from device to device",
    ),
    "rows longer than their pitch": (
        call("__cudaCDP2Memset2DAsync", *wide(f"%rd0 0 d1 4 {2**63 - 1} 0")),
        INVALID_PITCH,
        "rows longer than their pitch",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_launch_is_an_error_of_its_thread_and_a_line(device: Device, case: str) -> None:
    body, error, line = WRONG[case]
    text = parent(f"""{body} {call("__cudaCDP2GetLastError", result="%r1")}
        {call("__cudaCDP2GetLastError", result="%r2")} st.u32 [%rd0+400], %r1; st.u32 [%rd0+404], %r2;""")
    helper = ".func helper() { ret; }"
    values = device.buffer(np.zeros(128, np.uint32))
    printed = device.load(DECLARED + helper + APPEND + text)(values, block=1, name="parent")
    assert values.get()[100:102].tolist() == [error, SUCCESS]
    assert line in printed
    assert "kernel parent, block (0,0,0), thread (0,0,0)" in printed


def test_errors_belong_to_threads(device: Device) -> None:
    text = parent(f"""mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 33; @%p0 bra GOOD;
        {launch("append", grid=(0, 1, 1))}
GOOD:   {call("__cudaCDP2PeekAtLastError", result="%r1")}
        mad.wide.u32 %rd1, %r0, 4, %rd0; st.u32 [%rd1], %r1;""")
    values = device.buffer(np.zeros(64, np.uint32))
    device.load(DECLARED + APPEND + text)(values, block=64, name="parent")
    assert values.get().tolist() == [INVALID_CONFIGURATION if i == 33 else SUCCESS for i in range(64)]


def test_a_childs_fault_is_its_parents_and_names_both(device: Device) -> None:
    child = ".visible .entry child() { .reg .b64 %rd; mov.u64 %rd, 16; st.u32 [%rd], 1; ret; }"
    body = launch("child") + log(1)
    values = device.buffer(np.zeros(64, np.uint32))
    with pytest.raises(
        LaunchError, match=r"kernel child, block \(0,0,0\).*launched by kernel parent"
    ) as caught:
        device.load(DECLARED + APPEND + child + parent(body))(values, block=1, name="parent")
    assert caught.value.status is Status.ILLEGAL_ADDRESS
    assert values.get()[0] == 0, "what comes after a fault does not run"


def test_a_kernel_that_launches_a_refused_one_is_refused_for_its_reason(device: Device) -> None:
    child = ".visible .entry child() { wgmma.fence.sync.aligned; ret; }"
    with pytest.raises(LinkError, match="unknown instruction wgmma"):
        device.load(DECLARED + child + parent(launch("child")))


def test_a_kernel_that_waits_for_its_children_is_refused_with_the_remedy(device: Device) -> None:
    text = """.extern .func (.param .b32 r) cudaDeviceSynchronize();
.visible .entry k() { .param .b32 r; call.uni (r), cudaDeviceSynchronize, (); ret; }"""
    with pytest.raises(LinkError, match="launch what is to come after them into cudaStreamTailLaunch"):
        device.load(HEAD + text)


def test_what_the_device_runtime_does_not_have_is_named(device: Device) -> None:
    text = """.extern .func (.param .b32 r) __cudaCDP2Memcpy3DAsync(.param .b64 p, .param .b64 s);
.visible .entry k() { .param .b64 p; .param .b32 r; call.uni (r), __cudaCDP2Memcpy3DAsync, (p, p); ret; }"""
    with pytest.raises(LinkError, match="__cudaCDP2Memcpy3DAsync: the software GPU's device runtime"):
        device.load(HEAD + text)


def test_a_launch_does_not_count_as_a_call(device: Device) -> None:
    child = """.visible .entry child(.param .u64 log) {
        .reg .b64 %rd<2>; .local .b8 mine[4000]; .shared .b8 ours[4000];
        mov.u64 %rd0, mine; mov.u64 %rd1, ours; st.local.u8 [%rd0], 1; st.shared.u8 [%rd1], 1; ret; }"""
    give = "st.u64 [%buffer], %rd0;"
    module = device.load(DECLARED + child + parent(launch("child", give) + launch("parent", give)))
    info = module.info("parent")
    assert info.shared_bytes == 0
    assert info.local_bytes < 100


def local(name: str = "slot") -> str:
    return f".local .align 8 .b8 {name}[8]; mov.u64 %rd4, {name}; cvta.local.u64 %rd4, %rd4;"


def test_streams_and_events_order_what_is_launched_into_them(device: Device) -> None:
    body = f"""{local()}
    {call("__cudaCDP2StreamCreateWithFlags", ("b64", "%rd4"), ("b32", 1), result="%r10")} ld.u64 %rd5, [%rd4];
    {call("__cudaCDP2EventCreateWithFlags", ("b64", "%rd4"), ("b32", 2), result="%r11")} ld.u64 %rd6, [%rd4];
    {log(1, stream="%rd5")}
    {call("__cudaCDP2EventRecord", ("b64", "%rd6"), ("b64", "%rd5"), result="%r12")}
    {call("__cudaCDP2StreamWaitEvent", ("b64", 0), ("b64", "%rd6"), ("b32", 0), result="%r13")}
    {log(2)}
    {call("__cudaCDP2EventDestroy", ("b64", "%rd6"), result="%r14")}
    {call("__cudaCDP2StreamDestroy", ("b64", "%rd5"), result="%r15")}
    or.b32 %r10, %r10, %r11; or.b32 %r10, %r10, %r12; or.b32 %r10, %r10, %r13; or.b32 %r10, %r10, %r14;
    or.b32 %r10, %r10, %r15; setp.ne.u32 %p0, %r10, 0; @%p0 trap;"""
    assert logged(device, parent(body))[0] == [1, 2]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (call("__cudaCDP2StreamCreateWithFlags", ("b64", "%rd4"), ("b32", 0)), INVALID_VALUE),
        (call("__cudaCDP2EventCreateWithFlags", ("b64", "%rd4"), ("b32", 0)), INVALID_VALUE),
        (call("__cudaCDP2StreamDestroy", ("b64", 12345)), INVALID_HANDLE),
        (call("__cudaCDP2EventDestroy", ("b64", 0)), INVALID_HANDLE),
        (call("__cudaCDP2EventRecord", ("b64", 0), ("b64", 0)), INVALID_HANDLE),
        (call("__cudaCDP2Free", ("b64", "%rd4")), INVALID_VALUE),
        (call("__cudaCDP2DeviceGetAttribute", ("b64", "%rd4"), ("b32", 1), ("b32", 3)), INVALID_DEVICE),
    ],
)
def test_a_wrong_handle_or_flag_is_an_error(device: Device, wrong: str, error: int) -> None:
    values = device.buffer(np.zeros(2, np.uint32))
    text = parent(
        f"{local()} {wrong} {call('__cudaCDP2GetLastError', result='%r1')}"
        "st.u32 [%rd0], %r31; st.u32 [%rd0+4], %r1;"
    )
    device.load(DECLARED + text)(values, block=1)
    assert values.get().tolist() == [error, error]


def test_a_stream_is_its_grids_alone(device: Device) -> None:
    child = parent(
        f"ld.param.u64 %rd5, [stream]; {call('__cudaCDP2StreamDestroy', ('b64', '%rd5'))}"
        "st.u32 [%rd0], %r31;",
        "child",
        ".param .u64 log, .param .u64 stream",
    )
    body = f"""{local()} {call("__cudaCDP2StreamCreateWithFlags", ("b64", "%rd4"), ("b32", 1))}
        ld.u64 %rd5, [%rd4];
        {launch("child", "st.u64 [%buffer], %rd0; st.u64 [%buffer+8], %rd5;")}"""
    values = device.buffer(np.zeros(1, np.uint32))
    device.load(DECLARED + child + parent(body))(values, block=1, name="parent")
    assert values.get()[0] == INVALID_HANDLE


@pytest.mark.parametrize("address", ["8", "0x0300000000000000", "0x0100000000ffffff"])
def test_a_pointer_that_may_not_be_written_is_a_fault(device: Device, address: str) -> None:
    body = f"mov.u64 %rd4, {address};" + call("__cudaCDP2StreamCreateWithFlags", ("b64", "%rd4"), ("b32", 1))
    values = device.buffer(np.zeros(1, np.uint32))
    with pytest.raises(LaunchError, match="write of 8 bytes") as caught:
        device.load(DECLARED + parent(body))(values, block=1)
    assert caught.value.status is Status.ILLEGAL_ADDRESS


def test_copies_and_fills_come_in_their_order(device: Device) -> None:
    fill = call("__cudaCDP2MemsetAsync", *wide("%rd1 d7 16 0"))
    copy = call("__cudaCDP2MemcpyAsync", *wide("%rd2 %rd1 12 d3 0"))
    rows = call("__cudaCDP2Memset2DAsync", *wide("%rd3 8 d1 4 2 0"))
    turn = call("__cudaCDP2Memcpy2DAsync", *wide("%rd5 4 %rd3 8 4 2 d4 0"))
    body = f"""add.u64 %rd1, %rd0, 128; add.u64 %rd2, %rd0, 144; add.u64 %rd3, %rd0, 160;
        add.u64 %rd5, %rd0, 176;
        {fill} {copy} {rows} {turn} st.u32 [%rd1], 0;"""
    values = device.buffer(np.zeros(64, np.uint32))
    device.load(DECLARED + parent(body))(values, block=1)
    seven, one = 0x07070707, 0x01010101
    assert values.get()[32:48].tolist() == [seven] * 4 + [seven] * 3 + [0] + [one, 0, one, 0] + [
        one,
        one,
        0,
        0,
    ]


def test_a_copy_out_of_bounds_is_a_fault_when_it_runs(device: Device) -> None:
    values = device.buffer(np.zeros(4, np.uint32))
    body = call("__cudaCDP2MemsetAsync", ("b64", "%rd0"), ("b32", 7), ("b64", 17), ("b64", 0))
    with pytest.raises(LaunchError, match=r"a fill of 1 x 17 bytes is not within.*by kernel parent"):
        device.load(DECLARED + parent(body))(values, block=1)
    assert values.get().tolist() == [0] * 4


def test_memory_that_a_parent_allocates_is_its_childrens(device: Device) -> None:
    use = "ld.param.u64 %rd1, [at]; ld.u32 %r0, [%rd1+396]; st.u32 [%rd0], %r0;"
    free = call("__cudaCDP2Free", ("b64", "%rd1"))
    child = parent(use + free, "child", ".param .u64 log, .param .u64 at")
    body = f"""{local()} {call("__cudaCDP2Malloc", ("b64", "%rd4"), ("b64", 400))} ld.u64 %rd5, [%rd4];
        st.u32 [%rd5+396], 77; {launch("child", "st.u64 [%buffer], %rd0; st.u64 [%buffer+8], %rd5;")}"""
    values = device.buffer(np.zeros(1, np.uint32))
    module = device.load(DECLARED + child + parent(body))
    before = device.used
    module(values, block=1, name="parent")
    assert values.get()[0] == 77
    assert device.used == before


def test_a_kernel_frees_no_memory_that_has_another_owner(device: Device) -> None:
    """The program's, and a launch's parameters."""
    values = device.buffer(np.zeros(3, np.uint32))
    other = call("__cudaCDP2Free", ("b64", "%rd0"), result="%r1")
    own = call("__cudaCDP2Free", ("b64", "%buffer"), result="%r2")
    stores = f"""st.u64 [%buffer], %rd0; st.u32 [%buffer+8], 5;
        add.u64 %rd0, %rd0, 4; {own} st.u32 [%rd0], %r2;"""
    body = f"{other} st.u32 [%rd0], %r1; {launch('append', stores)}"
    module = device.load(DECLARED + APPEND + parent(body))
    before = device.used
    module(values, block=1, name="parent")
    assert values.get().tolist() == [INVALID_VALUE + 1, INVALID_VALUE, 5]
    assert device.used == before


@pytest.mark.parametrize("space", ["local", "shared"])
def test_a_child_that_is_given_its_launchers_own_memory_is_told(device: Device, space: str) -> None:
    child = parent("", "child", ".param .u64 log, .param .align 8 .b8 both[16]")
    body = f""".{space} .align 8 .b8 own[8]; mov.u64 %rd4, own; cvta.{space}.u64 %rd4, %rd4;
        {launch("child", "st.u64 [%buffer], %rd0; st.u64 [%buffer+16], %rd4;")}"""
    values = device.buffer(np.zeros(1, np.uint32))
    printed = device.load(DECLARED + child + parent(body))(values, block=2, name="parent")
    assert f"launch of kernel child with a pointer to its own {space} memory at byte 16" in printed
    assert printed.count("gpu-kernels:") == 1


def test_a_kernel_prints_what_an_error_means(device: Device) -> None:
    texts = ".global .align 1 .b8 format[8] = {37, 115, 32, 37, 115, 10, 0, 0};"  # "%s %s\n"
    body = f"""{launch("append", grid=(0, 1, 1))} {call("__cudaCDP2GetLastError", result="%r1")}
        .local .align 8 .b8 arguments[16]; mov.u64 %rd4, arguments; cvta.local.u64 %rd4, %rd4;
        {call("__cudaCDP2GetErrorName", ("b32", "%r1"), result="%rd5", bits="b64")} st.u64 [%rd4], %rd5;
        {call("__cudaCDP2GetErrorString", ("b32", 12345), result="%rd5", bits="b64")} st.u64 [%rd4+8], %rd5;
        mov.u64 %rd6, format; cvta.global.u64 %rd6, %rd6;
        {call("vprintf", ("b64", "%rd6"), ("b64", "%rd4"))}"""
    values = device.buffer(np.zeros(1, np.uint32))
    printed = device.load(DECLARED + texts + APPEND + parent(body))(values, block=1, name="parent")
    assert printed.endswith("cudaErrorInvalidConfiguration unrecognized error code\n")


def test_a_launch_of_ever_more_short_children_can_be_cancelled(device: Device) -> None:
    """Each kernel launches two more: 2**24 grids, each too short to look whether it is to end."""
    twice = launch("parent", "st.u64 [%buffer], %rd0;")
    own = "mov.u32 %r0, 1; red.add.u32 [%rd0], %r0;"
    values = device.buffer(np.zeros(1, np.uint32))
    module = device.load(DECLARED + parent(own + twice + twice))
    timer = threading.Timer(0.3, device.cancel)
    timer.start()
    try:
        with pytest.raises(LaunchError) as caught:
            module(values, block=1, name="parent")
    finally:
        timer.join()
        device.cancel(False)
    assert caught.value.status is Status.CANCELLED
    assert 24 < values.get()[0] < 2**24


def test_a_child_is_no_part_of_a_cooperative_launch(device: Device) -> None:
    child = parent("mov.u32 %r0, %envreg2; st.u32 [%rd0], %r0;", "child")
    values = device.buffer(np.ones(1, np.uint32))
    module = device.load(DECLARED + child + parent(launch("child", "st.u64 [%buffer], %rd0;")))
    with device.cooperative():
        module(values, block=1, name="parent")
    assert values.get()[0] == 0


def test_the_reference_page_lists_what_kernels_may_call(device: Device) -> None:
    page = PAGE.read_text()
    listed = re.findall(r"`(cuda\w+)`", page[page.index("| launches |") :])
    assert len(listed) > 20
    for function in listed:
        for name in (function, function.replace("cuda", "__cudaCDP2")):
            text = f".extern .func (.param .b64 r) {name}(.param .b64 p);"
            body = call(name, ("b64", "%rd0"), result="%rd1", bits="b64")
            device.load(HEAD + text + parent(body)).unload()


def test_a_name_that_only_begins_like_one_is_undefined(device: Device) -> None:
    for name in ("cudaMallocs", "cudaLaunchDeviceV3", "cuda", "cuda_ptsz"):
        text = f".extern .func (.param .b64 r) {name}(.param .b64 p);"
        body = call(name, ("b64", "%rd0"), result="%rd1", bits="b64")
        with pytest.raises(LinkError, match=f"undefined function {name}"):
            device.load(HEAD + text + parent(body))
