"""Every form that computes does what its reference says; so does every opcode that programs were seen to use.

``opcodes/`` lists those as they were seen in what numba, cuda.core, nvcc and Triton make. What is no
arithmetic is named here with the tests that try it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.softgpu.bench import Device
from tests.softgpu.engine import exact
from tests.softgpu.engine.elementwise import TYPES, compute, cross
from tests.softgpu.engine.reference import FLOATS, Meaning, edges, encoded, meaning, numbers
from tests.softgpu.instructions import TABLE, sample

LISTS = Path(__file__).parent.parent / "opcodes"
LISTED = sorted({name for path in LISTS.glob("*.txt") for name in path.read_text().split()})

# What other tests try, by how the opcode begins.
ELSEWHERE = {
    "ld.": "test_transfers.py, test_memory.py",
    "st.": "test_transfers.py, test_memory.py",
    "atom.": "test_transfers.py",
    "mov.pred": "test_transfers.py",
    "not.pred": "test_transfers.py",
    "and.pred": "test_transfers.py",
    "or.pred": "test_transfers.py",
    "xor.pred": "test_transfers.py",
    "cvta.": "test_memory.py",
    "add.cc.": "test_integer.py: carries",
    "addc.": "test_integer.py: carries",
    "sub.cc.": "test_integer.py: carries",
    "subc.": "test_integer.py: carries",
    "mad.lo.cc.": "test_integer.py: a long product",
    "madc.": "test_integer.py: a long product",
    "div.full.": "test_float.py: approximations",
    "ex2.approx.": "test_float.py: approximations",
    "rcp.approx.": "test_float.py: approximations",
    "rsqrt.approx.": "test_float.py: approximations",
    "shfl.sync.": "test_warps.py",
    "vote.sync.": "test_warps.py",
    "bar.": "test_blocks.py, test_warps.py",
    "membar.": "test_blocks.py",
    "bra": "test_warps.py",
    "ret": "test_calls.py",
    "call.": "test_calls.py",
    "cp.async.": "test_matrices.py",
    "ldmatrix.": "test_matrices.py",
    "mma.": "test_matrices.py",
    "tex.": "test_textures.py",
    "tld4.": "test_textures.py",
    "suld.b.": "test_surfaces.py",
    "sust.b.": "test_surfaces.py",
}


# Opcodes of each form that computes: each modifier stands in one, and is missing from one.
FORMS = {opcode for form in TABLE.forms for opcode, _ in sample(form) if meaning(opcode)}
TRIED = sorted({*(name for name in LISTED if meaning(name)), *FORMS})


def test_every_listed_opcode_has_a_test() -> None:
    untried = [
        n for n in LISTED if meaning(n) is None and not any(n.startswith(start) for start in ELSEWHERE)
    ]
    assert not untried


def check(device: Device, wanted: Meaning, columns: list[np.ndarray]) -> None:
    got = compute(device, wanted.body, wanted.result, wanted.operands, *columns)
    kinds = zip(wanted.operands, columns, strict=True)
    rows = zip(*[numbers(kind, column) for kind, column in kinds], strict=True)
    with np.errstate(all="ignore"):
        values = [wanted.function(*row) for row in rows]
        want = encoded("u32" if wanted.result == "pred" else wanted.result, values)
    exact.expect(canonical(wanted.result, got), canonical(wanted.result, want), *columns)


def canonical(kind: str, array: np.ndarray) -> np.ndarray:
    """bf16 and pairs come as bits: there all NaNs are made one."""
    if kind == "bf16":
        return np.where(array & 0x7FFF > 0x7F80, np.uint16(0x7FFF), array).astype(np.uint16)
    if kind in ("f16x2", "bf16x2"):
        limit = 0x7C00 if kind == "f16x2" else 0x7F80
        parts = array.view(np.uint16)
        return np.where(parts & 0x7FFF > limit, np.uint16(0x7FFF), parts).astype(np.uint16).view(np.uint32)
    return array


@pytest.mark.parametrize("opcode", TRIED)
def test_edge_values(device: Device, opcode: str) -> None:
    wanted = meaning(opcode)
    assert wanted is not None
    check(device, wanted, cross(*[edges(kind) for kind in wanted.operands], most=300))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_values(device: Device, data: st.DataObject) -> None:
    wanted = meaning(data.draw(st.sampled_from(TRIED)))
    assert wanted is not None
    columns = []
    for kind in wanted.operands:
        size = np.dtype(TYPES[kind][0]).itemsize
        raw = data.draw(st.lists(st.integers(0, (1 << 8 * size) - 1), min_size=24, max_size=24))
        column = np.array(raw, f"u{size}").view(TYPES[kind][0])
        if kind in FLOATS and kind != "bf16":  # a signalling NaN is quietened on its way through NumPy
            column = np.where(np.isnan(column), np.nan, column).astype(column.dtype)
        columns.append(column)
    check(device, wanted, columns)
