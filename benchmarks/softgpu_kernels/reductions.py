"""Many values to few: sums, rows that are normed, counts."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int32, njit, prange

from benchmarks.softgpu_kernels.exercise import Exercise, random

BLOCK = 256


@cuda.jit
def shared_kernel(values, out):
    partial = cuda.shared.array(BLOCK, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    total = float32(0.0)
    while i < values.size:
        total += values[i]
        i += cuda.gridsize(1)
    partial[t] = total
    cuda.syncthreads()
    step = BLOCK // 2
    while step > 0:
        if t < step:
            partial[t] += partial[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, partial[0])


@cuda.jit
def shuffle_kernel(values, out):
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


@njit(parallel=True)
def sum_compiled(values):
    total = np.float32(0.0)
    for i in prange(values.size):
        total += values[i]
    return total


def _sum(kernel, n: int) -> Exercise:
    values = random(n)
    dvalues, dout = cuda.to_device(values), cuda.to_device(np.zeros(1, np.float32))
    return Exercise(
        "element",
        n,
        lambda: kernel[64, BLOCK](dvalues, dout),
        lambda: np.testing.assert_allclose(dout.copy_to_host()[0], values.sum(dtype=np.float64), rtol=1e-4),
        lambda: sum_compiled(values),
        lambda: values.sum(),
    )


def shared_reduction(n: int = 1 << 22) -> Exercise:
    return _sum(shared_kernel, n)


def shuffle_reduction(n: int = 1 << 22) -> Exercise:
    return _sum(shuffle_kernel, n)


@cuda.jit
def shared_histogram_kernel(values, counts):
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
def global_histogram_kernel(values, counts):
    i = cuda.grid(1)
    while i < values.size:
        cuda.atomic.add(counts, values[i], 1)
        i += cuda.gridsize(1)


@njit(parallel=True)
def histogram_compiled(values, counts):
    """In parts of their own, then merged: numba has no atomics for the CPU. Both kernels are held to this,
    the one with atomics in global memory too, whose algorithm is not quite the same."""
    parts = 8
    local = np.zeros((parts, counts.size), counts.dtype)
    length = values.size // parts
    for part in prange(parts):
        for i in range(part * length, (part + 1) * length):
            local[part, values[i]] += 1
    for part in range(parts):
        counts += local[part]


def _histogram(kernel, n: int) -> Exercise:
    values = np.random.default_rng(4).integers(0, 256, n, np.uint8)
    dvalues, dcounts = cuda.to_device(values), cuda.to_device(np.zeros(256, np.int32))
    counts = np.zeros(256, np.int32)
    return Exercise(
        "element",
        n,
        lambda: kernel[64, 256](dvalues, dcounts),
        lambda: np.testing.assert_array_equal(dcounts.copy_to_host(), np.bincount(values, minlength=256)),
        lambda: histogram_compiled(values, counts),
        lambda: np.bincount(values, minlength=256),
    )


def shared_histogram(n: int = 1 << 21) -> Exercise:
    return _histogram(shared_histogram_kernel, n)


def global_histogram(n: int = 1 << 21) -> Exercise:
    return _histogram(global_histogram_kernel, n)


@cuda.jit(device=True)
def block_reduce(partial, t, value, largest):
    partial[t] = value
    cuda.syncthreads()
    step = BLOCK // 2
    while step > 0:
        if t < step:
            other = partial[t + step]
            partial[t] = max(partial[t], other) if largest else partial[t] + other
        cuda.syncthreads()
        step //= 2
    result = partial[0]
    cuda.syncthreads()
    return result


@cuda.jit
def softmax_kernel(values, out):
    partial = cuda.shared.array(BLOCK, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    top = float32(-math.inf)
    for i in range(t, values.shape[1], BLOCK):
        top = max(top, values[row, i])
    top = block_reduce(partial, t, top, True)
    total = float32(0.0)
    for i in range(t, values.shape[1], BLOCK):
        power = math.exp(values[row, i] - top)
        out[row, i] = power
        total += power
    total = block_reduce(partial, t, total, False)
    for i in range(t, values.shape[1], BLOCK):
        out[row, i] /= total


@njit(parallel=True)
def softmax_compiled(values, out):
    for row in prange(values.shape[0]):
        top = np.float32(-math.inf)
        for i in range(values.shape[1]):
            top = max(top, values[row, i])
        total = np.float32(0.0)
        for i in range(values.shape[1]):
            power = math.exp(values[row, i] - top)
            out[row, i] = power
            total += power
        for i in range(values.shape[1]):
            out[row, i] /= total


def _softmax_numpy(values, out):
    np.exp(values - values.max(axis=1, keepdims=True), out=out)
    out /= out.sum(axis=1, keepdims=True)


def _rows(kernel, compiled, with_numpy, rows: int, columns: int) -> Exercise:
    values = random(rows, columns)
    out, expected = np.empty_like(values), np.empty_like(values)
    dvalues, dout = cuda.to_device(values), cuda.to_device(out)
    with_numpy(values, expected)
    return Exercise(
        "element",
        values.size,
        lambda: kernel[rows, BLOCK](dvalues, dout),
        lambda: np.testing.assert_allclose(dout.copy_to_host(), expected, rtol=1e-3, atol=1e-3),
        lambda: compiled(values, out),
        lambda: with_numpy(values, out),
    )


def softmax(rows: int = 512, columns: int = 1024) -> Exercise:
    return _rows(softmax_kernel, softmax_compiled, _softmax_numpy, rows, columns)


@cuda.jit
def layer_norm_kernel(values, out):
    partial = cuda.shared.array(BLOCK, float32)
    row, t, n = cuda.blockIdx.x, cuda.threadIdx.x, values.shape[1]
    total = float32(0.0)
    for i in range(t, n, BLOCK):
        total += values[row, i]
    mean = block_reduce(partial, t, total, False) / float32(n)
    total = float32(0.0)
    for i in range(t, n, BLOCK):
        total += (values[row, i] - mean) * (values[row, i] - mean)
    scale = float32(1.0) / math.sqrt(block_reduce(partial, t, total, False) / float32(n) + float32(1e-5))
    for i in range(t, n, BLOCK):
        out[row, i] = (values[row, i] - mean) * scale


@njit(parallel=True)
def layer_norm_compiled(values, out):
    n = values.shape[1]
    for row in prange(values.shape[0]):
        total = np.float32(0.0)
        for i in range(n):
            total += values[row, i]
        mean = total / np.float32(n)
        total = np.float32(0.0)
        for i in range(n):
            total += (values[row, i] - mean) * (values[row, i] - mean)
        scale = np.float32(1.0) / np.float32(math.sqrt(total / np.float32(n) + np.float32(1e-5)))
        for i in range(n):
            out[row, i] = (values[row, i] - mean) * scale


def _layer_norm_numpy(values, out):
    np.subtract(values, values.mean(axis=1, keepdims=True), out=out)
    out /= np.sqrt(np.square(out).mean(axis=1, keepdims=True) + np.float32(1e-5))


def layer_norm(rows: int = 512, columns: int = 1024) -> Exercise:
    return _rows(layer_norm_kernel, layer_norm_compiled, _layer_norm_numpy, rows, columns)
