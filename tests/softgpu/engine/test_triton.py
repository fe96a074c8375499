"""Triton's tutorials, as the PTX that Triton makes of them, against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.softgpu.bench import Buffer, Device

FOLDER = Path(__file__).parents[2] / "conformance" / "triton"
NO_SCRATCH = (0, 0)


def launch(device: Device, name: str, *arguments: Buffer | int | float, grid: int, shared: int = 0) -> None:
    module = device.load((FOLDER / f"{name}.ptx").read_text())
    module(*arguments, *NO_SCRATCH, grid=grid, block=128, shared=shared)
    module.unload()


def test_vector_add(device: Device) -> None:
    count = 98432
    x, y = np.random.default_rng(0).random((2, count), np.float32)
    out = device.buffer(np.zeros(count, np.float32))
    launch(device, "vector_add.sm75", device.buffer(x), device.buffer(y), out, count, grid=-(-count // 1024))
    assert np.array_equal(out.get(), x + y)


def test_softmax(device: Device) -> None:
    rows, columns = 37, 784
    x = np.random.default_rng(1).normal(size=(rows, columns)).astype(np.float32)
    out = device.buffer(np.zeros_like(x))
    launch(device, "softmax.sm75", out, device.buffer(x), columns, columns, rows, columns, grid=8, shared=16)
    exponents = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    assert np.allclose(out.get(), exponents / exponents.sum(axis=1, keepdims=True), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("name", "shared"), [("matmul.sm75", 8192), ("matmul.sm80", 16384)])
@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 32), (128, 192, 80), (80, 48, 96)])
def test_matrix_product(device: Device, name: str, shared: int, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(m, k)).astype(np.float16), rng.normal(size=(k, n)).astype(np.float16)
    out = device.buffer(np.zeros((m, n), np.float16))
    arguments = (device.buffer(a), device.buffer(b), out, m, n, k, k, n, n)
    launch(device, name, *arguments, grid=-(-m // 64) * -(-n // 64), shared=shared)
    want = a.astype(np.float64) @ b.astype(np.float64)
    assert np.allclose(out.get().astype(np.float64), want, rtol=2e-3, atol=2e-3)


def test_layer_norm(device: Device) -> None:
    rows, columns = 5, 1152
    rng = np.random.default_rng(3)
    x = rng.normal(2, 3, (rows, columns)).astype(np.float32)
    weight, bias = rng.random((2, columns), np.float32)
    out, mean, scale = (device.buffer(np.zeros(shape, np.float32)) for shape in ((rows, columns), rows, rows))
    given = (device.buffer(x), out, device.buffer(weight), device.buffer(bias), mean, scale)
    launch(device, "layer_norm.sm75", *given, columns, columns, 1e-5, grid=rows, shared=16)
    wide = x.astype(np.float64)
    normal = (wide - wide.mean(axis=1, keepdims=True)) / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
    assert np.allclose(out.get(), normal * weight + bias, rtol=1e-4, atol=1e-5)
    assert np.allclose(mean.get(), wide.mean(axis=1), rtol=1e-5)


def philox(seed: int, offsets: np.ndarray) -> np.ndarray:
    """The first word of Philox 4x32 with 10 rounds, of counters that are one word."""
    mask = np.uint64(0xFFFFFFFF)
    c0, c1, c2, c3 = offsets.astype(np.uint64), *(np.zeros_like(offsets, np.uint64) for _ in range(3))
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    for _ in range(10):
        a, b = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1 = (b >> np.uint64(32)) ^ c1 ^ np.uint64(k0), b & mask
        c2, c3 = (a >> np.uint64(32)) ^ c3 ^ np.uint64(k1), a & mask
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return c0.astype(np.uint32)


def test_low_memory_dropout(device: Device) -> None:
    count, seed, p = 4096, 123, 0.5
    x = np.random.default_rng(4).normal(size=count).astype(np.float32)
    out = device.buffer(np.zeros(count, np.float32))
    launch(device, "dropout.sm75", device.buffer(x), out, count, p, seed, grid=4)
    drawn = philox(seed, np.arange(count)).view(np.int32).astype(np.int64)
    uniform = np.where(drawn < 0, -drawn - 1, drawn).astype(np.float32) * np.float32(4.6566127342e-10)
    assert np.array_equal(out.get(), np.where(uniform > p, x / np.float32(1 - p), np.float32(0)))
