"""Lanes of a warp: divergence, meeting again, shuffles, votes, and waiting for each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.softgpu.bench import Device, LaunchError, Status
from tests.softgpu.engine.elementwise import HEAD, compute


def kernel(body: str, registers: str = "") -> str:
    """One warp: %lane is the lane, and %r0 goes to out[lane]."""
    return f"""{HEAD}
.visible .entry k(.param .u64 out, .param .u64 in) {{
    .reg .pred %p<8>; .reg .b32 %r<32>, %lane; .reg .b64 %rd<16>; .reg .f32 %f<8>; {registers}
    mov.u32 %lane, %tid.x;
    ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in];
    mul.wide.u32 %rd3, %lane, 4;
    add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
    mov.u32 %r0, 0;
    {body}
DONE:
    st.global.u32 [%rd4], %r0;
    ret;
}}"""


def run(device: Device, text: str, values: np.ndarray | None = None, block: int = 32) -> np.ndarray:
    out = device.buffer(np.zeros(block, np.uint32))
    given_values = device.buffer(np.arange(block, dtype=np.uint32) if values is None else values)
    module = device.load(text)
    try:
        module(out, given_values, block=block)
        return out.get()
    finally:
        module.unload()
        out.free()
        given_values.free()


LANES = np.arange(32, dtype=np.uint32)


def shuffle_reference(mode: str, values: np.ndarray, b: np.ndarray, c: int) -> tuple[np.ndarray, np.ndarray]:
    segment, clamp = c >> 8 & 31, c & 31
    out, valid = values.copy(), np.zeros(32, bool)
    for lane in range(32):
        step = int(b[lane]) & 31
        least, most = lane & segment, (lane & segment) | (clamp & ~segment)
        source = {
            "up": lane - step,
            "down": lane + step,
            "bfly": lane ^ step,
            "idx": least | (step & ~segment & 31),
        }[mode]
        valid[lane] = source >= most if mode == "up" else source <= most
        out[lane] = values[source] if valid[lane] else values[lane]
    return out, valid


@settings(max_examples=40, deadline=None)
@given(
    mode=st.sampled_from(["up", "down", "bfly", "idx"]),
    b=st.lists(st.integers(0, 31), min_size=32, max_size=32),
    width=st.sampled_from([32, 16, 8, 4, 2, 1]),
)
def test_shuffles(device: Device, mode: str, b: list[int], width: int) -> None:
    c = (32 - width) << 8 | (0 if mode == "up" else 31)
    values = np.random.default_rng(width).integers(0, 1 << 32, 32, dtype=np.uint32)
    steps = np.array(b, np.uint32)
    body = (
        f"shfl.sync.{mode}.b32 %r5|%p1, %s0, %s1, {c}, -1; selp.u32 %r6, 1, 0, %p1; mov.b64 %d, {{%r5, %r6}};"
    )
    got = compute(device, body, "u64", ("u32", "u32"), values, steps).view(np.uint32).reshape(-1, 2)
    want, valid = shuffle_reference(mode, values, steps, c)
    assert np.array_equal(got[:, 0], want)
    assert np.array_equal(got[:, 1], valid)


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_a_shuffle_gets_zero_from_a_lane_that_does_not_take_part(device: Device, mode: str) -> None:
    here = LANES < 8
    got = run(
        device,
        kernel(f"""
        add.u32 %r1, %lane, 1000; setp.gt.u32 %p1, %lane, 7; @%p1 bra DONE;
        mul.lo.u32 %r2, %lane, 4; shfl.sync.{mode}.b32 %r0, %r1, %r2, {0 if mode == "up" else 31}, 0xff;
        add.u32 %r0, %r0, 1;
        """),
    )
    values, _ = shuffle_reference(
        mode, np.where(here, LANES + 1000, 0), LANES * 4 & 31, 0 if mode == "up" else 31
    )
    assert np.array_equal(got, np.where(here, values + 1, 0))


def test_votes_and_ballots(device: Device) -> None:
    for bits in (0, 1, 0x80000000, 0xFFFFFFFF, 0x12345678):
        flags = (bits >> LANES & 1).astype(np.uint32)
        body = """setp.ne.u32 %p1, %s0, 0;
            vote.sync.ballot.b32 %r5, %p1, -1;
            vote.sync.all.pred %p2, %p1, -1; vote.sync.any.pred %p3, %p1, -1;
            vote.sync.uni.pred %p4, !%p1, -1;
            selp.u32 %r6, 1, 0, %p2; selp.u32 %r7, 2, 0, %p3; selp.u32 %r8, 4, 0, %p4;
            or.b32 %r6, %r6, %r7; or.b32 %r6, %r6, %r8; mov.b64 %d, {%r5, %r6};"""
        got = compute(device, body, "u64", ("u32",), flags).view(np.uint32).reshape(-1, 2)
        every, some = bits == 0xFFFFFFFF, bits != 0
        assert set(got[:, 0].tolist()) == {bits}
        assert set(got[:, 1].tolist()) == {every + 2 * some + 4 * (every or not some)}


def test_matching_lanes_find_each_other(device: Device) -> None:
    values = np.random.default_rng(0).integers(0, 5, 32).astype(np.uint32)
    got = compute(device, "match.any.sync.b32 %d, %s0, -1;", "u32", ("u32",), values)
    want = [sum(1 << j for j in range(32) if values[j] == values[i]) for i in range(32)]
    assert got.tolist() == want
    body = "match.all.sync.b32 %r5|%p1, %s0, -1; selp.u32 %d, %r5, 7, %p1;"
    assert set(compute(device, body, "u32", ("u32",), values).tolist()) == {7}
    assert set(compute(device, body, "u32", ("u32",), values * 0).tolist()) == {0xFFFFFFFF}


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("add.u32", np.sum),
        ("min.u32", np.min),
        ("max.u32", np.max),
        ("and.b32", np.bitwise_and.reduce),
        ("or.b32", np.bitwise_or.reduce),
        ("xor.b32", np.bitwise_xor.reduce),
    ],
)
def test_redux(device: Device, name: str, function: object) -> None:
    values = np.random.default_rng(1).integers(0, 1 << 32, 32, dtype=np.uint32)
    got = compute(device, f"redux.sync.{name} %d, %s0, -1;", "u32", ("u32",), values)
    assert set(got.tolist()) == {int(function(values)) & 0xFFFFFFFF}  # type: ignore[operator]


def test_lanes_take_different_ways_and_meet_again(device: Device) -> None:
    got = run(
        device,
        kernel("""
        and.b32 %r1, %lane, 3;
        setp.eq.u32 %p1, %r1, 0; @%p1 bra ZERO;
        setp.eq.u32 %p2, %r1, 1; @%p2 bra ONE;
        add.u32 %r0, %lane, 300; bra JOIN;
    ZERO: mov.u32 %r0, 1000; bra JOIN;
    ONE: mul.lo.u32 %r0, %lane, %lane;
    JOIN:
        activemask.b32 %r2;
        setp.ne.u32 %p3, %r2, -1;
        @%p3 mov.u32 %r0, 0xdead;
        """),
    )
    want = np.select([LANES % 4 == 0, LANES % 4 == 1], [LANES * 0 + 1000, LANES * LANES], LANES + 300)
    assert np.array_equal(got, want)


def test_lanes_leave_a_loop_one_by_one_and_meet_after_it(device: Device) -> None:
    got = run(
        device,
        kernel("""
        mov.u32 %r1, 0;
    LOOP:
        setp.ge.u32 %p1, %r1, %lane; @%p1 bra OUT;
        add.u32 %r0, %r0, %r1; add.u32 %r1, %r1, 1; bra.uni LOOP;
    OUT:
        activemask.b32 %r2; setp.eq.u32 %p2, %r2, -1; @%p2 add.u32 %r0, %r0, 5000;
        """),
    )
    assert np.array_equal(got, LANES * (LANES - 1) // 2 + 5000)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_any_program_of_branches_runs_each_lane_as_if_alone(device: Device, data: st.DataObject) -> None:
    """A random control-flow graph; every lane's path is followed in Python."""
    count = data.draw(st.integers(2, 9))
    blocks = []
    for _ in range(count):
        bit = data.draw(st.integers(0, 4))
        targets = data.draw(st.tuples(st.integers(0, count), st.integers(0, count)))
        blocks.append((bit, *targets, data.draw(st.integers(1, 1 << 16))))
    lines = ["mov.u32 %r9, 0;"]
    for number, (bit, taken, other, factor) in enumerate(blocks):
        lines += [f"B{number}:", "add.u32 %r9, %r9, 1;", "setp.gt.u32 %p1, %r9, 40;", "@%p1 bra DONE;"]
        # The way taken depends on lane and step, so that lanes part again and again.
        lines += [
            f"mad.lo.u32 %r0, %r0, 31, {factor};",
            "add.u32 %r10, %lane, %r9;",
            "xor.b32 %r10, %r10, %r0;",
        ]
        lines += [f"shr.u32 %r10, %r10, {bit};", "and.b32 %r10, %r10, 1;", "setp.ne.u32 %p2, %r10, 0;"]
        names = [f"B{t}" if t < count else "DONE" for t in (taken, other)]
        lines += [f"@%p2 bra {names[0]};", f"bra {names[1]};"]
    got = run(device, kernel("\n".join(lines)))
    want = []
    for lane in range(32):
        r0, step, at = 0, 0, 0
        while at < count:
            bit, taken, other, factor = blocks[at]
            step += 1
            if step > 40:
                break
            r0 = (r0 * 31 + factor) & 0xFFFFFFFF
            at = taken if ((lane + step) ^ r0) >> bit & 1 else other
        want.append(r0)
    assert got.tolist() == want


def test_a_lane_may_wait_for_another_lane_of_its_warp(device: Device) -> None:
    """A spin lock that every lane takes in turn: it needs lanes that are scheduled independently."""
    text = f"""{HEAD}
.visible .entry k(.param .u64 lock, .param .u64 sum) {{
    .reg .pred %p1; .reg .b32 %r<8>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [lock]; ld.param.u64 %rd2, [sum];
TRY:
    atom.global.cas.b32 %r1, [%rd1], 0, 1;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra TRY;
    ld.volatile.global.u32 %r2, [%rd2];
    mov.u32 %r3, %tid.x;
    add.u32 %r2, %r2, %r3;
    st.volatile.global.u32 [%rd2], %r2;
    membar.gl;
    atom.global.exch.b32 %r4, [%rd1], 0;
    ret;
}}"""
    lock, total = device.buffer(np.zeros(1, np.uint32)), device.buffer(np.zeros(1, np.uint32))
    device.load(text)(lock, total, grid=6, block=96)
    assert total.get()[0] == 6 * 96 * 95 // 2


def test_lanes_hand_over_through_memory_within_a_warp(device: Device) -> None:
    got = run(
        device,
        kernel("""
        setp.eq.u32 %p1, %lane, 0; @%p1 bra FIRST;
        sub.u32 %r1, %lane, 1; mul.wide.u32 %rd6, %r1, 4; add.s64 %rd6, %rd2, %rd6;
    WAIT:
        ld.volatile.global.u32 %r2, [%rd6]; setp.eq.u32 %p2, %r2, 0; @%p2 bra WAIT;
        add.u32 %r0, %r2, %lane; bra STORE;
    FIRST: mov.u32 %r0, 1;
    STORE: st.volatile.global.u32 [%rd5], %r0;
        """),
        np.zeros(32, np.uint32),
    )
    assert np.array_equal(got, 1 + np.cumsum(LANES))


def test_sync_shuffles_wait_for_lanes_that_come_later(device: Device) -> None:
    """Half the warp arrives by a longer way; the shuffle must see all of them."""
    got = run(
        device,
        kernel("""
        mul.lo.u32 %r1, %lane, 10;
        and.b32 %r2, %lane, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra EVEN;
        mov.u32 %r3, 0;
    SLOW: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 5000; @%p2 bra SLOW;
    EVEN:
        shfl.sync.bfly.b32 %r0, %r1, 1, 31, -1;
        """),
    )
    assert np.array_equal(got, (LANES ^ 1) * 10)


def test_warp_barriers_may_be_met_at_different_places(device: Device) -> None:
    got = run(
        device,
        kernel("""
        setp.lt.u32 %p1, %lane, 16; @%p1 bra LOW;
        st.global.u32 [%rd5], 77; bar.warp.sync -1; bra JOIN;
    LOW: bar.warp.sync -1;
        ld.global.u32 %r0, [%rd5+64]; bra DONE;
    JOIN: mov.u32 %r0, 5;
        """),
        np.zeros(32, np.uint32),
    )
    assert got.tolist() == [77] * 16 + [5] * 16


def test_exited_lanes_are_not_waited_for(device: Device) -> None:
    got = run(
        device,
        kernel("""
        setp.gt.u32 %p1, %lane, 20; @%p1 exit;
        vote.sync.ballot.b32 %r0, 1, -1;
        bar.sync 0;
        """),
    )
    assert got.tolist() == [(1 << 21) - 1] * 21 + [0] * 11


def test_lanes_that_never_come_are_a_deadlock_and_not_a_hang(device: Device) -> None:
    body = """
        setp.gt.u32 %p1, %lane, 20; @%p1 bra OTHER;
        shfl.sync.idx.b32 %r0, %lane, 0, 31, -1; bra DONE;
    OTHER: bar.sync 0;"""
    with pytest.raises(LaunchError, match=r"waits for ever.*PTX line") as caught:
        run(device, kernel(body))
    assert caught.value.status is Status.DEADLOCK


def test_guards_touch_only_their_lanes(device: Device) -> None:
    got = run(
        device,
        kernel("""
        mov.u32 %r0, 5; and.b32 %r1, %lane, 1; setp.ne.u32 %p1, %r1, 0;
        @%p1 add.u32 %r0, %r0, 100; @!%p1 mul.lo.u32 %r0, %r0, 3;
        @%p1 st.global.u32 [%rd5], 1; @%p1 setp.eq.u32 %p2, %lane, %lane; @!%p1 setp.ne.u32 %p2, %lane, %lane;
        @%p2 add.u32 %r0, %r0, 1000;
        """),
    )
    assert np.array_equal(got, np.where(LANES % 2, 1105, 15))


def test_a_branch_table_sends_lanes_to_their_labels(device: Device) -> None:
    got = run(
        device,
        kernel("""
        and.b32 %r1, %lane, 3;
    table: .branchtargets A, B, C, A;
        brx.idx %r1, table;
    A: mov.u32 %r0, 10; bra JOIN;
    B: mov.u32 %r0, 20; bra JOIN;
    C: mov.u32 %r0, 30;
    JOIN: add.u32 %r0, %r0, 1;
        """),
    )
    assert np.array_equal(got, np.array([11, 21, 31, 11])[LANES % 4])


def test_branches_through_one_table_from_two_places_go_to_its_labels(device: Device) -> None:
    got = run(
        device,
        kernel("""
        and.b32 %r1, %lane, 3; mov.u32 %r2, 2; setp.lt.u32 %p1, %lane, 16;
    table: .branchtargets A, B, C;
        @%p1 brx.idx %r2, table;
        min.u32 %r1, %r1, 2;
        brx.idx %r1, table;
    A: mov.u32 %r0, 10; bra JOIN;
    B: mov.u32 %r0, 20; bra JOIN;
    C: mov.u32 %r0, 30;
    JOIN: add.u32 %r0, %r0, 1;
        """),
    )
    assert np.array_equal(got, np.where(LANES < 16, 31, np.array([11, 21, 31, 31])[LANES % 4]))


def test_special_registers_tell_where_a_thread_is(device: Device) -> None:
    names = ["laneid", "lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge"]
    lane, one = LANES.astype(np.uint64), np.uint64(1)
    want = [lane, one << lane, (one << lane) - one, (one << lane + one) - one]
    want += [~((one << lane + one) - one), ~((one << lane) - one)]
    for name, expected in zip(names, want, strict=True):
        got = run(device, kernel(f"mov.u32 %r0, %{name};"))
        assert np.array_equal(got, expected.astype(np.uint32)), name


def test_clocks_go_forward(device: Device) -> None:
    body = "mov.u64 %rd8, %{0}; mov.u64 %rd9, %{0}; setp.ge.u64 %p1, %rd9, %rd8; selp.u32 %r0, 1, 0, %p1;"
    for name in ("clock64", "globaltimer"):
        assert run(device, kernel(body.format(name))).all()


def test_a_warp_with_few_threads(device: Device) -> None:
    assert run(device, kernel("vote.sync.ballot.b32 %r0, 1, -1;"), block=5).tolist() == [31] * 5


def test_tiles_of_a_warp_vote_match_and_add_among_themselves(device: Device) -> None:
    """All lanes are at one instruction, and each names its tile's lanes as members."""
    flags = np.array([i in (3, 9, 10, 16) or i >= 24 for i in range(32)], np.uint32)
    body = """mov.u32 %r5, %tid.x; and.b32 %r6, %r5, 24; mov.u32 %r7, 255; shl.b32 %r7, %r7, %r6;
        setp.ne.u32 %p1, %s0, 0;
        vote.sync.ballot.b32 %r8, %p1, %r7; vote.sync.any.pred %p2, %p1, %r7;
        vote.sync.all.pred %p3, %p1, %r7; vote.sync.uni.pred %p4, %p1, %r7;
        redux.sync.add.u32 %r9, %r5, %r7; match.any.sync.b32 %r10, %s0, %r7;
        match.all.sync.b32 %r11|%p5, %s0, %r7;
        selp.u32 %r12, 1, 0, %p2; selp.u32 %r13, 2, 0, %p3; or.b32 %r12, %r12, %r13;
        selp.u32 %r13, 4, 0, %p4; or.b32 %r12, %r12, %r13; selp.u32 %r13, 8, 0, %p5; or.b32 %r12, %r12, %r13;
        activemask.b32 %r14; """
    for register, want in {
        "%r8": lambda tile, lane: sum(1 << i for i in tile if flags[i]),
        "%r9": lambda tile, lane: sum(tile),
        "%r10": lambda tile, lane: sum(1 << i for i in tile if flags[i] == flags[lane]),
        "%r12": lambda tile, lane: any(flags[tile]) + 14 * all(flags[tile]) + 12 * (not any(flags[tile])),
        "%r14": lambda tile, lane: 0xFFFFFFFF,
    }.items():
        got = compute(device, body + f"mov.b32 %d, {register};", "u32", ("u32",), flags)
        tiles = [list(range(lane // 8 * 8, lane // 8 * 8 + 8)) for lane in range(32)]
        assert got.tolist() == [int(want(tile, lane)) for lane, tile in enumerate(tiles)], register


def test_a_tile_that_is_complete_does_not_wait_for_another(device: Device) -> None:
    """The upper tile comes in two parts; the second needs what the lower tile does after its vote."""
    got = run(
        device,
        kernel("""
        setp.ge.u32 %p1, %lane, 24; @%p1 bra LATE;
        mov.u32 %r1, 0xFFFF; setp.lt.u32 %p2, %lane, 16; @%p2 bra VOTE; mov.u32 %r1, 0xFFFF0000; bra VOTE;
    LATE:
        ld.volatile.global.u32 %r2, [%rd2]; setp.eq.u32 %p3, %r2, 0; @%p3 bra LATE; mov.u32 %r1, 0xFFFF0000;
    VOTE:
        vote.sync.ballot.b32 %r0, 1, %r1;
        setp.ne.u32 %p4, %lane, 0; @%p4 bra DONE;
        st.volatile.global.u32 [%rd2], 1;
        """),
        np.zeros(32, np.uint32),
    )
    assert got.tolist() == [0xFFFF] * 16 + [0xFFFF0000] * 16
