"""Kernels of one instruction: an element of each operand's array a thread, the result's array back."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from tests.softgpu.bench import Device, Module

HEAD = ".version 8.5\n.target sm_75\n.address_size 64\n"

# PTX type: NumPy type, PTX type of a register that holds it
TYPES: dict[str, tuple[type[np.generic], str]] = {
    "u8": (np.uint8, "u16"),
    "s8": (np.int8, "s16"),
    "u16": (np.uint16, "u16"),
    "s16": (np.int16, "s16"),
    "u32": (np.uint32, "u32"),
    "s32": (np.int32, "s32"),
    "u64": (np.uint64, "u64"),
    "s64": (np.int64, "s64"),
    "b16": (np.uint16, "b16"),
    "b32": (np.uint32, "b32"),
    "b64": (np.uint64, "b64"),
    "f16": (np.float16, "b16"),
    "bf16": (np.uint16, "b16"),
    "f16x2": (np.uint32, "b32"),
    "bf16x2": (np.uint32, "b32"),
    "f32": (np.float32, "f32"),
    "f64": (np.float64, "f64"),
}


def kernel_text(body: str, result: str, operands: tuple[str, ...]) -> str:
    """``body`` computes %d from %s0, %s1, ...; for a result of ``pred`` it sets %q."""
    lines = [HEAD, ".visible .entry k(.param .u64 out, .param .u32 count"]
    lines += [f", .param .u64 in{i}" for i in range(len(operands))]
    lines += [
        ") {",
        ".reg .pred %p<8>, %q;",
        ".reg .b32 %r<16>, %i;",
        ".reg .b64 %rd<16>, %a;",
        ".reg .b16 %h<8>;",
    ]
    lines += [".reg .f32 %f<8>;", ".reg .f64 %fd<8>;"]
    lines += [f".reg .{TYPES[kind][1]} %s{i};" for i, kind in enumerate(operands)]
    stored = "u32" if result == "pred" else result
    lines += [f".reg .{TYPES[stored][1]} %d;"]
    lines += ["mov.u32 %r0, %ctaid.x;", "mov.u32 %r1, %ntid.x;", "mov.u32 %r2, %tid.x;"]
    lines += [
        "mad.lo.s32 %i, %r0, %r1, %r2;",
        "ld.param.u32 %r3, [count];",
        "setp.ge.u32 %p0, %i, %r3;",
        "@%p0 ret;",
    ]
    for i, kind in enumerate(operands):
        size = np.dtype(TYPES[kind][0]).itemsize
        load = kind if kind[0] in "us" else f"b{8 * size}"
        lines += [
            f"ld.param.u64 %a, [in{i}];",
            f"mad.wide.u32 %a, %i, {size}, %a;",
            f"ld.global.{load} %s{i}, [%a];",
        ]
    lines += [body]
    if result == "pred":
        lines += ["selp.u32 %d, 1, 0, %q;"]
    size = np.dtype(TYPES[stored][0]).itemsize
    lines += ["ld.param.u64 %a, [out];", f"mad.wide.u32 %a, %i, {size}, %a;"]
    lines += [f"st.global.b{8 * size} [%a], %d;" if size > 1 else "st.global.u8 [%a], %d;", "ret;", "}"]
    return "\n".join(lines)


@functools.lru_cache(maxsize=512)
def compiled(device: Device, body: str, result: str, operands: tuple[str, ...]) -> Module:
    return device.load(kernel_text(body, result, operands))


def compute(
    device: Device, body: str, result: str, operands: tuple[str, ...], *arrays: NDArray[np.generic]
) -> NDArray[np.generic]:
    """Runs one instruction over arrays of one length. Results of ``pred`` come as 0 and 1."""
    module = compiled(device, body, result, operands)
    kinds = [np.dtype(TYPES[kind][0]) for kind in operands]
    inputs = [
        device.buffer(np.asarray(array).astype(kind)) for array, kind in zip(arrays, kinds, strict=True)
    ]
    count = len(arrays[0])
    out = device.buffer(np.zeros(count, TYPES["u32" if result == "pred" else result][0]))
    module(out, count, *inputs, grid=-(-count // 128), block=128)
    got = out.get()
    for buffer in [*inputs, out]:
        buffer.free()
    return got


def cross(*sets: NDArray[np.generic], seed: int = 7, most: int = 4096) -> list[NDArray[np.generic]]:
    """All combinations of the sets' values, or a fixed sample of them where they are too many."""
    grids = np.meshgrid(*[np.arange(len(values)) for values in sets], indexing="ij")
    flat = [grid.ravel() for grid in grids]
    if len(flat[0]) > most:
        chosen = np.random.default_rng(seed).choice(len(flat[0]), most, replace=False)
        flat = [indices[chosen] for indices in flat]
    return [values[indices] for values, indices in zip(sets, flat, strict=True)]


def integer_edges(kind: str) -> NDArray[np.generic]:
    """Values where integer arithmetic goes wrong if it does."""
    dtype = np.dtype(TYPES[kind][0])
    bits = 8 * dtype.itemsize
    values = {0, 1, 2, 3, 5, 7, 31, 32, 33, 63, 64, 100, 255, 256}
    values |= {
        (1 << bits) - 1,
        (1 << bits) - 2,
        1 << (bits - 1),
        (1 << (bits - 1)) - 1,
        (1 << (bits - 1)) + 1,
    }
    values |= {
        0x0123456789ABCDEF,
        0xFEDCBA9876543210,
        0x5555555555555555,
        0xAAAAAAAAAAAAAAAA,
        1 << (bits // 2),
    }
    raw = sorted({value & ((1 << bits) - 1) for value in values})
    return np.array(raw, np.dtype(f"u{dtype.itemsize}")).view(dtype)


def float_edges(kind: str) -> NDArray[np.generic]:
    """Zeros, infinities, NaN, denormals, the limits, halfway cases, and some plain numbers, of both signs."""
    dtype = np.dtype(TYPES[kind][0])
    info = np.finfo(dtype)
    tiny, small, most, eps = info.tiny, info.smallest_subnormal, info.max, info.eps
    with np.errstate(over="ignore"):
        values = [
            0.0,
            small,
            3 * small,
            tiny - small,
            tiny,
            3 * tiny,
            eps,
            0.5,
            0.75,
            1 - eps / 2,
            1.0,
            1 + eps,
        ]
        values += [
            1.5,
            2.0,
            2.5,
            3.0,
            3.5,
            1 / 3,
            np.pi,
            100.5,
            65504.0,
            1 / eps,
            2 / eps + 2,
            most / 2,
            most,
            np.inf,
        ]
    positive = np.array(values, dtype)
    return np.concatenate([positive, -positive, np.array([np.nan], dtype)])
