"""Programs that the lowering rewrites: what is the same in all blocks, addresses, short branches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.softgpu.bench import Device
from tests.softgpu.engine.test_blocks import entry

BLOCK, GRID, TURNS = 80, 3, 3  # the last warp is not full
REGISTERS = 6
PARAMETER = 0x123456789
Lanes = NDArray[np.uint64]


@dataclass
class Program:
    """PTX lines, and what each does to all threads' registers, for the threads of a mask."""

    values: dict[str, Lanes]
    lines: list[str] = field(default_factory=list)
    temporaries: int = 0

    def fresh(self) -> str:
        self.temporaries += 1
        return f"%t{self.temporaries}"

    def of(self, operand: str | int) -> Lanes:
        if isinstance(operand, str):
            return self.values[operand]
        return np.full(BLOCK * GRID, operand & (2**64 - 1), np.uint64)


@dataclass
class Step:
    opcode: str
    to: str
    a: str | int
    b: str | int
    c: str | int = 0

    def text(self) -> str:
        operands = [self.to, self.a, self.b] + ([self.c] if self.opcode == "mad.lo.s64" else [])
        return f"{self.opcode} {', '.join(str(x) for x in operands)};"

    def run(self, program: Program, mask: NDArray[np.bool_]) -> None:
        a, b, c = program.of(self.a), program.of(self.b), program.of(self.c)
        with np.errstate(over="ignore"):
            results: dict[str, Callable[[], Lanes]] = {
                "add.s64": lambda: a + b,
                "sub.s64": lambda: a - b,
                "and.b64": lambda: a & b,
                "mul.lo.s64": lambda: a * b,
                "mad.lo.s64": lambda: a * b + c,
                "shl.b64": lambda: a << b,
                "shr.s64": lambda: (a.view(np.int64) >> b.view(np.int64)).view(np.uint64),
            }
            result = results[self.opcode]()
        program.values[self.to] = np.where(mask, result, program.values.get(self.to, result))


@dataclass
class Skip:
    """A branch around steps, by the sign of a register."""

    by: str
    steps: list[Step]


def draw_step(data: st.DataObject, program: Program, readable: list[str]) -> list[Step]:
    source = st.one_of(st.sampled_from(readable), st.sampled_from([1, 4, -1, 2**40]))
    register = st.sampled_from([f"%v{i}" for i in range(REGISTERS)])
    kind = data.draw(st.sampled_from(["plain", "plain", "shift", "index", "scaled", "product"]))
    to = data.draw(register)
    if kind == "plain":
        opcode = data.draw(st.sampled_from(["add.s64", "sub.s64", "and.b64", "mul.lo.s64", "mad.lo.s64"]))
        return [Step(opcode, to, data.draw(source), data.draw(source), data.draw(source))]
    if kind == "shift":
        opcode = data.draw(st.sampled_from(["shl.b64", "shr.s64"]))
        return [Step(opcode, to, data.draw(source), data.draw(st.sampled_from([0, 1, 3, 5, 63])))]
    number, base = data.draw(st.sampled_from(readable)), data.draw(source)
    made = [program.fresh() for _ in range(4)]
    if kind == "product":
        steps = [Step("mul.lo.s64", made[0], number, data.draw(source)), Step("add.s64", to, made[0], base)]
    elif kind == "scaled":
        shift = data.draw(st.integers(0, 5))
        steps = [Step("shl.b64", made[0], number, shift), Step("add.s64", to, base, made[0])]
    else:
        shift = data.draw(st.integers(0, 5))
        steps = [
            Step("shr.s64", made[0], number, data.draw(st.sampled_from([63, 63, 62]))),
            Step("and.b64", made[1], made[0], data.draw(source)),
            Step("add.s64", made[2], made[1], number),
            Step("shl.b64", made[3], made[2], shift),
            Step("add.s64", to, base, made[3]),
        ]
    for step in steps:
        if isinstance(step.b, str) and step.opcode in ("add.s64", "and.b64") and data.draw(st.booleans()):
            step.a, step.b = step.b, step.a
    if data.draw(st.booleans()):  # something else writes one of the operands in between
        between = Step("add.s64", data.draw(register), data.draw(source), data.draw(source))
        steps.insert(data.draw(st.integers(0, len(steps))), between)
    return steps


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_a_program_does_what_its_instructions_do_one_by_one(device: Device, data: st.DataObject) -> None:
    thread = np.tile(np.arange(BLOCK, dtype=np.uint64), GRID)
    block = np.repeat(np.arange(GRID, dtype=np.uint64), BLOCK)
    start: list[tuple[str, Lanes]] = [
        ("cvt.u64.u32 {}, %r1;", thread),  # the same in all blocks
        ("cvt.u64.u32 {}, %r3;", block),
        ("cvt.s64.s32 {}, %r4; sub.s64 {}, {}, 100;", block * np.uint64(BLOCK) + thread - np.uint64(100)),
        ("ld.param.u64 {}, [by];", np.full(BLOCK * GRID, PARAMETER, np.uint64)),
    ]
    program = Program({})
    readable = []
    for i in range(REGISTERS):
        for name in (f"%v{i}", f"%s{i}"):  # of the second kind nothing writes again
            text, value = data.draw(st.sampled_from(start))
            program.values[name] = value
            program.lines.append(text.format(name, name, name))
            readable.append(name)
    body: list[Step | Skip] = []
    for _ in range(data.draw(st.integers(1, 8))):
        steps = draw_step(data, program, readable)
        if data.draw(st.booleans()):
            skip = Skip(data.draw(st.sampled_from(readable)), steps[: data.draw(st.integers(1, 5))])
            body.append(skip)
            # What a branch may skip must be there for what comes after it.
            written = {step.to for step in steps if step.to.startswith("%t")}
            program.lines += [f"mov.u64 {name}, 7;" for name in sorted(written)]
            program.values |= {name: program.of(7) for name in written}
            steps = steps[len(skip.steps) :]
        body += steps
    lines = [*program.lines, "mov.u32 %r9, 0;", "TURN:"]
    for number, item in enumerate(body):
        if isinstance(item, Skip):
            lines.append(f"setp.lt.s64 %p1, {item.by}, 0; @%p1 bra PAST{number};")
            lines += [step.text() for step in item.steps]
            lines.append(f"PAST{number}:")
        else:
            lines.append(item.text())
    lines.append(f"add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, {TURNS}; @%p2 bra TURN;")
    lines.append(f"ld.param.u64 %rd1, [out]; mad.wide.u32 %rd2, %r4, {8 * REGISTERS}, %rd1;")
    lines += [f"st.global.u64 [%rd2+{8 * i}], %v{i};" for i in range(REGISTERS)]
    declared = f".reg .b64 %v<{REGISTERS}>, %s<{REGISTERS}>, %t<{program.temporaries + 1}>;\n"
    out = device.buffer(np.zeros((BLOCK * GRID, REGISTERS), np.uint64))
    module = device.load(entry(".param .u64 out, .param .u64 by", declared + "\n".join(lines)))
    module(out, PARAMETER, grid=GRID, block=BLOCK)

    everyone = np.full(BLOCK * GRID, True)
    for _ in range(TURNS):
        for item in body:
            if isinstance(item, Skip):
                stays = program.of(item.by).view(np.int64) >= 0
                for step in item.steps:
                    step.run(program, stays)
            else:
                item.run(program, everyone)
    expected = np.stack([program.values[f"%v{i}"] for i in range(REGISTERS)], axis=1)
    assert np.array_equal(out.get(), expected), "\n".join(lines)
    module.unload()
    out.free()


def test_a_guard_that_the_guarded_instruction_changes_is_no_guard(device: Device) -> None:
    """A branch around the instruction that changes its condition, and one that reads it after."""
    text = entry(
        ".param .u64 out",
        """ld.param.u64 %rd1, [out]; mad.wide.u32 %rd2, %r4, 4, %rd1; mov.u32 %r5, 0;
        setp.lt.u32 %p1, %r1, 10; @%p1 bra PAST; setp.lt.u32 %p1, %r1, 20; mov.u32 %r5, 1;
    PAST: selp.u32 %r6, 2, 0, %p1; add.u32 %r5, %r5, %r6; st.global.u32 [%rd2], %r5;""",
    )
    out = device.buffer(np.zeros(32, np.uint32))
    device.load(text)(out, block=32)
    assert out.get().tolist() == [2] * 10 + [3] * 10 + [1] * 12
