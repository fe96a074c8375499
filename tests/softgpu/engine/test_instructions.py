"""The table of instructions and the engine agree: every form is taken, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.softgpu.bench import Device, LinkError, handlers
from tests.softgpu.instructions import (
    HEAD,
    OPEN,
    REFUSING,
    TABLE,
    guarded_kernel,
    kernel,
    loaded,
    sample,
    table,
)

ROOT = Path(__file__).parents[3]

BY_MNEMONIC: dict[str, list[Any]] = {}
for each in TABLE.forms:
    BY_MNEMONIC.setdefault(each.mnemonic, []).append(each)

# Whose last form does not take whatever begins as one of its modifiers does.
CLOSED = [
    mnemonic
    for mnemonic, forms in BY_MNEMONIC.items()
    if not any(a.written in OPEN for group in forms[-1].groups for a in group.alternatives)
]

# Said of an instruction that no form takes.
UNKNOWN = "unknown instruction"


@pytest.mark.parametrize("mnemonic", BY_MNEMONIC)
def test_every_form_is_taken(device: Device, mnemonic: str) -> None:
    kernels = [
        kernel(f"k{number}", form, list(sample(form)))
        for number, form in enumerate(BY_MNEMONIC[mnemonic])
        if form.pick not in REFUSING
    ]
    device.load(HEAD + "\n".join([*kernels, ".visible .entry last() { ret; }"]))


@pytest.mark.parametrize(
    "form", [form for form in TABLE.forms if form.pick in REFUSING], ids=lambda form: form.mnemonic
)
def test_what_is_refused_is_refused_by_name(device: Device, form: Any) -> None:
    strange = f"{form.mnemonic}.nosuch.b32"
    with pytest.raises(LinkError, match=f"unsupported instruction {strange}: .*{REFUSING[form.pick]}"):
        device.load(HEAD + kernel("k", form, [(strange, {})]))


@pytest.mark.parametrize("mnemonic", BY_MNEMONIC)
def test_under_a_guard_that_no_lane_has_nothing_changes(device: Device, mnemonic: str) -> None:
    forms = [form for form in BY_MNEMONIC[mnemonic] if form.pick not in REFUSING]
    module = device.load(HEAD + guarded_kernel("k", forms))
    memory = device.buffer(np.zeros(1024, np.uint64))
    module(memory, grid=1, block=32)
    got = memory.get()
    memory.free()
    real, double = np.float32(7).view(np.uint32), np.float64(7).view(np.uint64)
    assert list(got[:6]) == [7, 7, 7, real, double, 0]
    assert not got[6:].any()


@pytest.mark.parametrize("mnemonic", CLOSED)
def test_a_modifier_that_no_form_has_is_refused_by_name(device: Device, mnemonic: str) -> None:
    form = BY_MNEMONIC[mnemonic][-1]
    opcode, words = next(sample(form))
    first, dot, rest = opcode.partition(".")
    strange = f"{first}.nosuch{dot}{rest}"
    with pytest.raises(LinkError, match=f"{UNKNOWN} {first}.nosuch"):
        device.load(HEAD + kernel("k", form, [(strange, words)]))


@pytest.mark.parametrize(
    "opcode",
    [
        "add.sat.u32",
        "add.rz.s32",
        "mul.wide.u64",
        "min.sat.f32",
        "fma.relu.f32",
        "tanh.f32",
        "cvt.f32.u32.u8",
    ],
)
def test_what_the_manual_does_not_have_is_refused(device: Device, opcode: str) -> None:
    with pytest.raises(LinkError, match=f"{UNKNOWN} {opcode}"):
        device.load(f"{HEAD}.visible .entry k() {{ .reg .b32 %r<4>; {opcode} %r1, %r1, %r1; }}")


def test_the_reference_page_is_the_tables() -> None:
    sys.modules["table"] = table
    written = (ROOT / "docs" / "reference" / "ptx.md").read_text()
    assert loaded("page").page(TABLE) == written, (
        "run: python remoting/native/softgpu/instructions/page.py docs/reference/ptx.md"
    )


def test_the_table_names_the_handlers_that_there_are() -> None:
    there = {name for name, state in handlers().items() if state == "1"}
    unnamed = {name for name, state in handlers().items() if state == "?"}
    wanted = {name for name, certain in TABLE.names().items() if certain}
    assert not wanted - there, "forms without a handler"
    assert not unnamed, "handlers without a form"
