"""Times a few kernels of the course, small, in a process whose environment says what they are checked for.

Waits for a line on standard input before each turn, and answers with the CPU seconds of each kernel, as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np
from numba import cuda, float32

from benchmarks.softgpu_kernels.exercise import random, seconds

TILE, SIDE, BLOCK, VALUES = 16, 64, 256, 1 << 14


@cuda.jit(lineinfo=True)
def product(a, b, out):
    left = cuda.shared.array((TILE, TILE), float32)
    above = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = float32(0.0)
    for tile in range(0, SIDE, TILE):
        left[y, x] = a[row, tile + x]
        above[y, x] = b[tile + y, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += left[y, k] * above[k, x]
        cuda.syncthreads()
    out[row, column] = total


@cuda.jit(lineinfo=True)
def reduction(values, out):
    part = cuda.shared.array(BLOCK, float32)
    t = cuda.threadIdx.x
    part[t] = values[cuda.grid(1)]
    cuda.syncthreads()
    step = BLOCK // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, part[0])


@cuda.jit(lineinfo=True)
def saxpy(x, y):
    i = cuda.grid(1)
    y[i] += float32(2.0) * x[i]


def turns() -> dict[str, Callable[[], None]]:
    a, b = (cuda.to_device(random(SIDE, SIDE)) for _ in range(2))
    square = cuda.to_device(np.zeros((SIDE, SIDE), np.float32))
    x, y = (cuda.to_device(random(VALUES)) for _ in range(2))
    total = cuda.to_device(np.zeros(1, np.float32))
    tiles, blocks = (SIDE // TILE, SIDE // TILE), VALUES // BLOCK
    return {
        "tiled matrix product": lambda: product[tiles, (TILE, TILE)](a, b, square),
        "shared-memory reduction": lambda: reduction[blocks, BLOCK](x, total),
        "saxpy": lambda: saxpy[blocks, BLOCK](x, y),
    }


def timed(call: Callable[[], None], repeats: int) -> float:
    def all_of_them() -> None:
        for _ in range(repeats):
            call()
        cuda.synchronize()

    return seconds(all_of_them, time.process_time) / repeats


if __name__ == "__main__":
    calls = turns()
    for call in calls.values():
        timed(call, 1)
    repeats = int(sys.argv[1])
    for _line in sys.stdin:
        print(json.dumps({name: timed(call, repeats) for name, call in calls.items()}), flush=True)
