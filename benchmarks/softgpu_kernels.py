"""The notebook's kernels, timed on whatever CUDA device this process has, beside NumPy on the CPU.

Run as a child of ``benchmarks.softgpu`` with the software GPU's environment; prints one JSON object
``{kernel: {"operations": n, "device_s": s, "cpu_s": s}}``. Times are medians; the first call, which compiles,
is not counted.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from numba import cuda, float32, int32, njit
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

TILE = 16
REPEATS = 5


@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]


@cuda.jit
def matmul(a, b, out):
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0.0)
    for step in range(a.shape[1] // TILE):
        tile_a[tx, ty] = a[x, ty + step * TILE]
        tile_b[tx, ty] = b[tx + step * TILE, y]
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[tx, k] * tile_b[k, ty]
        cuda.syncthreads()
    out[x, y] = total


@cuda.jit
def reduce_sum(values, out):
    i = cuda.grid(1)
    total = float32(0.0)
    while i < values.size:
        total += values[i]
        i += cuda.gridsize(1)
    offset = 16
    while offset > 0:
        total += cuda.shfl_down_sync(0xFFFFFFFF, total, offset)
        offset //= 2
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, total)


@cuda.jit
def histogram(values, counts):
    local = cuda.shared.array(256, int32)
    local[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    while i < values.size:
        cuda.atomic.add(local, values[i], 1)
        i += cuda.gridsize(1)
    cuda.syncthreads()
    cuda.atomic.add(counts, cuda.threadIdx.x, local[cuda.threadIdx.x])


@cuda.jit
def pi_hits(states, draws, hits):
    i = cuda.grid(1)
    inside = 0
    for _ in range(draws):
        x = xoroshiro128p_uniform_float32(states, i)
        y = xoroshiro128p_uniform_float32(states, i)
        if x * x + y * y <= 1.0:
            inside += 1
    cuda.atomic.add(hits, 0, inside)


@njit
def pi_hits_on_cpu(draws):
    inside = 0
    for _ in range(draws):
        x, y = np.random.random(), np.random.random()
        if x * x + y * y <= 1.0:
            inside += 1
    return inside


def timed(call: Callable[[], object]) -> float:
    """Median seconds of a call, after one that is not counted."""
    call()
    samples = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        samples.append(time.perf_counter() - start)
    return statistics.median(samples)


def on_device(launch: Callable[[], object]) -> float:
    def call() -> None:
        launch()
        cuda.synchronize()

    return timed(call)


def measure_add(n: int = 1 << 21) -> dict[str, float]:
    a, b = np.random.rand(2, n).astype(np.float32)
    out = np.empty_like(a)
    da, db, dout = cuda.to_device(a), cuda.to_device(b), cuda.to_device(out)
    device = on_device(lambda: add[n // 256, 256](da, db, dout))
    assert np.array_equal(dout.copy_to_host(), a + b)
    return {"operations": n, "device_s": device, "cpu_s": timed(lambda: np.add(a, b, out=out))}


def measure_matmul(n: int = 256) -> dict[str, float]:
    a, b = np.random.rand(2, n, n).astype(np.float32)
    da, db, dout = cuda.to_device(a), cuda.to_device(b), cuda.to_device(np.zeros_like(a))
    device = on_device(lambda: matmul[(n // TILE, n // TILE), (TILE, TILE)](da, db, dout))
    assert np.allclose(dout.copy_to_host(), a @ b, rtol=1e-4)
    return {"operations": 2 * n**3, "device_s": device, "cpu_s": timed(lambda: a @ b)}


def measure_reduce(n: int = 1 << 21) -> dict[str, float]:
    values = np.random.rand(n).astype(np.float32)
    dvalues, dout = cuda.to_device(values), cuda.to_device(np.zeros(1, np.float32))
    device = on_device(lambda: reduce_sum[64, 256](dvalues, dout))
    dout = cuda.to_device(np.zeros(1, np.float32))
    reduce_sum[64, 256](dvalues, dout)
    assert np.isclose(dout.copy_to_host()[0], values.sum(dtype=np.float64), rtol=1e-4)
    return {"operations": n, "device_s": device, "cpu_s": timed(lambda: values.sum())}


def measure_histogram(n: int = 1 << 21) -> dict[str, float]:
    values = np.random.randint(0, 256, n).astype(np.uint8)
    dvalues = cuda.to_device(values)
    dcounts = cuda.to_device(np.zeros(256, np.int32))
    device = on_device(lambda: histogram[64, 256](dvalues, dcounts))
    dcounts = cuda.to_device(np.zeros(256, np.int32))
    histogram[64, 256](dvalues, dcounts)
    assert np.array_equal(dcounts.copy_to_host(), np.bincount(values, minlength=256))
    return {"operations": n, "device_s": device, "cpu_s": timed(lambda: np.bincount(values, minlength=256))}


def measure_pi(threads: int = 64 * 128, draws: int = 128) -> dict[str, float]:
    states = create_xoroshiro128p_states(threads, seed=1)
    hits = cuda.to_device(np.zeros(1, np.int64))
    device = on_device(lambda: pi_hits[threads // 128, 128](states, draws, hits))
    hits = cuda.to_device(np.zeros(1, np.int64))
    pi_hits[threads // 128, 128](states, draws, hits)
    assert abs(4 * hits.copy_to_host()[0] / (threads * draws) - np.pi) < 0.02
    cpu = timed(lambda: pi_hits_on_cpu(threads * draws))
    return {"operations": threads * draws, "device_s": device, "cpu_s": cpu}


KERNELS = {
    "vector add": measure_add,
    "tiled matrix product": measure_matmul,
    "shuffle reduction": measure_reduce,
    "histogram": measure_histogram,
    "Monte-Carlo pi": measure_pi,
}

if __name__ == "__main__":
    json.dump({name: measure() for name, measure in KERNELS.items()}, sys.stdout)
