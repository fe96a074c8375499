"""Kernels of a CUDA course with the bugs that students write, and their corrected forms.

As a program: `python kernels.py NAME...` runs those.
"""

from __future__ import annotations

import sys

import numpy as np
from numba import cuda, float32, int32

N = 256
TILE = N + 2
RNG = np.random.default_rng(7)


@cuda.jit(lineinfo=True)
def reduce_without_barrier(x, out):
    part = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    part[t] = x[t]
    cuda.syncthreads()
    half = N // 2
    while half > 0:
        if t < half:
            part[t] += part[t + half]
        half //= 2
    if t == 0:
        out[0] = part[0]


@cuda.jit(lineinfo=True)
def reduce(x, out):
    part = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    part[t] = x[t]
    cuda.syncthreads()
    half = N // 2
    while half > 0:
        if t < half:
            part[t] += part[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[0] = part[0]


@cuda.jit(lineinfo=True)
def stencil_without_barrier(x, out):
    tile = cuda.shared.array(TILE, float32)
    t = cuda.threadIdx.x
    tile[t + 1] = x[t]
    if t == 0:
        tile[0] = 0
        tile[N + 1] = 0
    out[t] = tile[t] + tile[t + 1] + tile[t + 2]


@cuda.jit(lineinfo=True)
def stencil(x, out):
    tile = cuda.shared.array(TILE, float32)
    t = cuda.threadIdx.x
    tile[t + 1] = x[t]
    if t == 0:
        tile[0] = 0
        tile[N + 1] = 0
    cuda.syncthreads()
    out[t] = tile[t] + tile[t + 1] + tile[t + 2]


@cuda.jit(lineinfo=True)
def histogram_without_atomics(x, out):
    counts = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        counts[t] = 0
    cuda.syncthreads()
    counts[int(x[t]) % 8] += 1
    cuda.syncthreads()
    if t < 8:
        out[t] = counts[t]


@cuda.jit(lineinfo=True)
def histogram(x, out):
    counts = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        counts[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(counts, int(x[t]) % 8, 1)
    cuda.syncthreads()
    if t < 8:
        out[t] = counts[t]


@cuda.jit(lineinfo=True)
def tile_with_a_hole(x, out):
    tile = cuda.shared.array(TILE, float32)
    t = cuda.threadIdx.x
    tile[t + 1] = x[t]
    cuda.syncthreads()
    out[t] = tile[t] + tile[t + 1] + tile[t + 2]


@cuda.jit(lineinfo=True)
def barrier_in_a_branch(x, out):
    tile = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    if t >= N // 2:
        return
    cuda.syncthreads()
    out[t] = tile[t] + tile[N // 2 + t]


@cuda.jit(lineinfo=True)
def barrier_for_all(x, out):
    tile = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    if t >= N // 2:
        return
    out[t] = tile[t] + tile[N // 2 + t]


@cuda.jit(lineinfo=True)
def warps_without_syncwarp(x, out):
    part = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    if t < 32:
        part[t] = x[t]
        out[t] = part[31 - t]


@cuda.jit(lineinfo=True)
def warps(x, out):
    part = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    if t < 32:
        part[t] = x[t]
        cuda.syncwarp()
        out[t] = part[31 - t]


@cuda.jit(lineinfo=True)
def shuffles(x, out):
    t = cuda.threadIdx.x
    value = x[t]
    offset = 16
    while offset > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
        offset //= 2
    if t % 32 == 0:
        cuda.atomic.add(out, 0, value)


@cuda.jit(lineinfo=True)
def shuffle_in_a_branch(x, out):
    t = cuda.threadIdx.x
    value = x[t]
    if t < 8:
        offset = 16
        while offset > 0:
            value += cuda.shfl_down_sync(0xFF, value, offset)
            offset //= 2
    if t == 0:
        out[0] = value


@cuda.jit(lineinfo=True)
def adds(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + 1


@cuda.jit(lineinfo=True)
def strides(x, out):
    i = cuda.grid(1) * 1024
    out[i] = x[i]


def touch_more_than_is_kept():
    arrays = [cuda.to_device(np.zeros(N * 4 * 1024, np.float32)) for _ in range(2)]
    for _ in range(2):
        strides[4, N](*arrays)
    cuda.synchronize()


def launch(name):
    if name == "strides":
        return touch_more_than_is_kept()
    x = RNG.integers(0, 100, N).astype(np.float32)
    if name == "never_written":
        on_device, name = cuda.device_array(N, np.float32), "adds"
    else:
        on_device = cuda.to_device(x)
    out = cuda.to_device(np.zeros(N, np.float32))
    globals()[name][1, N](on_device, out)
    cuda.synchronize()
    if name == "shuffle_in_a_branch":
        print("more than the eight lanes have:", out.copy_to_host()[0] - x[:8].sum())


if __name__ == "__main__":
    for kernel in sys.argv[1:]:
        launch(kernel)
