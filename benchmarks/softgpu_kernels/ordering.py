"""Where elements go: running sums, the ones that are kept, sorting."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int32, njit, prange

from benchmarks.softgpu_kernels.exercise import Exercise, random

BLOCK = 256


@cuda.jit
def scan_kernel(values, out):
    """Each block's running sums, by doubling steps."""
    partial = cuda.shared.array(BLOCK, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    partial[t] = values[i]
    cuda.syncthreads()
    step = 1
    while step < BLOCK:
        before = partial[t - step] if t >= step else 0
        cuda.syncthreads()
        partial[t] += before
        cuda.syncthreads()
        step *= 2
    out[i] = partial[t]


@njit(parallel=True)
def scan_compiled(values, out):
    """By doubling steps too; NumPy's is the loop that one thread would run."""
    for block in prange(values.size // BLOCK):
        partial = out[block * BLOCK : (block + 1) * BLOCK]
        partial[:] = values[block * BLOCK : (block + 1) * BLOCK]
        step = 1
        while step < BLOCK:
            for t in range(BLOCK - 1, step - 1, -1):
                partial[t] += partial[t - step]
            step *= 2


def scan(n: int = 1 << 20) -> Exercise:
    values = np.random.default_rng(4).integers(0, 100, n, np.int32)
    out = np.zeros_like(values)
    dvalues, dout = cuda.to_device(values), cuda.to_device(out)
    rows = values.reshape(-1, BLOCK)
    return Exercise(
        "element",
        n,
        lambda: scan_kernel[n // BLOCK, BLOCK](dvalues, dout),
        lambda: np.testing.assert_array_equal(dout.copy_to_host().reshape(-1, BLOCK), rows.cumsum(axis=1)),
        lambda: scan_compiled(values, out),
        lambda: np.cumsum(rows, axis=1, dtype=np.int32, out=out.reshape(-1, BLOCK)),
    )


@cuda.jit
def compact_kernel(values, threshold, out, count):
    """Keeps what is above the threshold: a ballot counts a warp's, one atomic takes places for them."""
    i = cuda.grid(1)
    lane = cuda.laneid
    keep = i < values.size and values[i] > threshold
    ballot = cuda.ballot_sync(0xFFFFFFFF, keep)
    first = 0
    if lane == 0:
        first = cuda.atomic.add(count, 0, cuda.popc(ballot))
    first = cuda.shfl_sync(0xFFFFFFFF, first, 0)
    if keep:
        out[first + cuda.popc(ballot & ((1 << lane) - 1))] = values[i]


@njit(parallel=True)
def compact_compiled(values, threshold, out, parts):
    length = values.size // parts.size
    for part in prange(parts.size):
        count = 0
        for i in range(part * length, (part + 1) * length):
            count += values[i] > threshold
        parts[part] = count
    for part in prange(parts.size):
        place = parts[:part].sum()
        for i in range(part * length, (part + 1) * length):
            if values[i] > threshold:
                out[place] = values[i]
                place += 1


def compaction(n: int = 1 << 20) -> Exercise:
    values = random(n)
    threshold = np.float32(0.5)
    out, parts = np.zeros_like(values), np.zeros(8, np.int64)
    dvalues, dout, dcount = cuda.to_device(values), cuda.to_device(out), cuda.to_device(np.zeros(1, np.int32))
    none = np.zeros(1, np.int32)

    def device() -> None:
        dcount.copy_to_device(none)
        compact_kernel[n // BLOCK, BLOCK](dvalues, threshold, dout, dcount)

    def check() -> None:
        kept = dout.copy_to_host()[: dcount.copy_to_host()[0]]
        np.testing.assert_array_equal(np.sort(kept), np.sort(values[values > threshold]))

    return Exercise(
        "element",
        n,
        device,
        check,
        lambda: compact_compiled(values, threshold, out, parts),
        lambda: values[values > threshold],
    )


@cuda.jit
def bitonic_kernel(values):
    """Sorts each block's elements in shared memory."""
    tile = cuda.shared.array(512, float32)
    t, base = cuda.threadIdx.x, cuda.blockIdx.x * 512
    tile[t], tile[t + BLOCK] = values[base + t], values[base + t + BLOCK]
    size = 2
    while size <= 512:
        step = size // 2
        while step > 0:
            cuda.syncthreads()
            low = 2 * t - (t & (step - 1))
            a, b = tile[low], tile[low + step]
            if (a > b) == ((low & size) == 0):
                tile[low], tile[low + step] = b, a
            step //= 2
        size *= 2
    cuda.syncthreads()
    values[base + t], values[base + t + BLOCK] = tile[t], tile[t + BLOCK]


@njit(parallel=True)
def bitonic_compiled(values):
    for block in prange(values.size // 512):
        tile = values[block * 512 : (block + 1) * 512]
        size = 2
        while size <= 512:
            step = size // 2
            while step > 0:
                for t in range(256):
                    low = 2 * t - (t & (step - 1))
                    a, b = tile[low], tile[low + step]
                    if (a > b) == ((low & size) == 0):
                        tile[low], tile[low + step] = b, a
                step //= 2
            size *= 2


def bitonic_sort(n: int = 1 << 17) -> Exercise:
    values = random(n)
    dvalues, dsource, work = cuda.device_array_like(values), cuda.to_device(values), values.copy()

    def device() -> None:
        dvalues.copy_to_device(dsource)
        bitonic_kernel[n // 512, BLOCK](dvalues)

    def compiled() -> None:
        np.copyto(work, values)
        bitonic_compiled(work)

    return Exercise(
        "element",
        n,
        device,
        lambda: np.testing.assert_array_equal(
            dvalues.copy_to_host().reshape(-1, 512), np.sort(values.reshape(-1, 512), axis=1)
        ),
        compiled,
        lambda: np.sort(values.reshape(-1, 512), axis=1),
    )
