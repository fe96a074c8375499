"""Each element from those around it."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, njit, prange

from benchmarks.softgpu_kernels.exercise import Exercise, random

BLOCK = 256
RADIUS = 3
WITH_EDGES = BLOCK + 2 * RADIUS
TILE = 16


@cuda.jit
def line_kernel(values, out):
    tile = cuda.shared.array(WITH_EDGES, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    tile[t + RADIUS] = values[i]
    if t < RADIUS:
        tile[t] = values[i - RADIUS] if i >= RADIUS else float32(0.0)
        tile[t + BLOCK + RADIUS] = values[i + BLOCK] if i + BLOCK < values.size else float32(0.0)
    cuda.syncthreads()
    total = float32(0.0)
    for k in range(-RADIUS, RADIUS + 1):
        total += tile[t + RADIUS + k]
    out[i] = total


@njit(parallel=True)
def line_compiled(values, out):
    for i in prange(values.size):
        total = np.float32(0.0)
        for k in range(max(i - RADIUS, 0), min(i + RADIUS + 1, values.size)):
            total += values[k]
        out[i] = total


def stencil_1d(n: int = 1 << 20) -> Exercise:
    values = random(n)
    out = np.zeros_like(values)
    dvalues, dout = cuda.to_device(values), cuda.to_device(out)
    ones = np.ones(2 * RADIUS + 1, np.float32)
    return Exercise(
        "element",
        n,
        lambda: line_kernel[n // BLOCK, BLOCK](dvalues, dout),
        lambda: np.testing.assert_allclose(dout.copy_to_host(), np.convolve(values, ones, "same"), rtol=1e-4),
        lambda: line_compiled(values, out),
        lambda: np.convolve(values, ones, "same"),
    )


@cuda.jit
def heat_kernel(values, out):
    x, y = cuda.grid(2)
    if 0 < x < values.shape[1] - 1 and 0 < y < values.shape[0] - 1:
        around = values[y - 1, x] + values[y + 1, x] + values[y, x - 1] + values[y, x + 1]
        out[y, x] = values[y, x] + float32(0.2) * (around - float32(4.0) * values[y, x])


@njit(parallel=True)
def heat_compiled(values, out):
    for y in prange(1, values.shape[0] - 1):
        for x in range(1, values.shape[1] - 1):
            around = values[y - 1, x] + values[y + 1, x] + values[y, x - 1] + values[y, x + 1]
            out[y, x] = values[y, x] + np.float32(0.2) * (around - np.float32(4.0) * values[y, x])


def _heat_numpy(values, out):
    inner = values[1:-1, 1:-1]
    around = values[:-2, 1:-1] + values[2:, 1:-1] + values[1:-1, :-2] + values[1:-1, 2:]
    out[1:-1, 1:-1] = inner + np.float32(0.2) * (around - np.float32(4.0) * inner)


def _grid(kernel, compiled, with_numpy, values) -> Exercise:
    out, expected = np.zeros_like(values), np.zeros_like(values)
    dvalues, dout = cuda.to_device(values), cuda.to_device(out)
    with_numpy(values, expected)
    grid = (values.shape[1] // TILE, values.shape[0] // TILE)
    return Exercise(
        "element",
        values.size,
        lambda: kernel[grid, (TILE, TILE)](dvalues, dout),
        lambda: np.testing.assert_allclose(dout.copy_to_host(), expected, rtol=1e-4, atol=1e-5),
        lambda: compiled(values, out),
        lambda: with_numpy(values, out),
    )


def stencil_2d(n: int = 1024) -> Exercise:
    return _grid(heat_kernel, heat_compiled, _heat_numpy, random(n, n))


@cuda.jit
def life_kernel(cells, out):
    x, y = cuda.grid(2)
    height, width = cells.shape
    if x < width and y < height:
        alive = 0
        for dy in range(-1, 2):
            for dx in range(-1, 2):
                if dx != 0 or dy != 0:
                    alive += cells[(y + dy) % height, (x + dx) % width]
        out[y, x] = 1 if alive == 3 or (alive == 2 and cells[y, x] == 1) else 0


@njit(parallel=True)
def life_compiled(cells, out):
    height, width = cells.shape
    for y in prange(height):
        for x in range(width):
            alive = 0
            for dy in range(-1, 2):
                for dx in range(-1, 2):
                    if dx != 0 or dy != 0:
                        alive += cells[(y + dy) % height, (x + dx) % width]
            out[y, x] = 1 if alive == 3 or (alive == 2 and cells[y, x] == 1) else 0


def _life_numpy(cells, out):
    alive = np.zeros(cells.shape, np.int8)
    for dy, dx in np.ndindex(3, 3):
        if (dy, dx) != (1, 1):
            alive += np.roll(cells, (dy - 1, dx - 1), (0, 1))
    np.copyto(out, (alive == 3) | ((alive == 2) & (cells == 1)), casting="unsafe")


def game_of_life(n: int = 512) -> Exercise:
    cells = (random(n, n) < 0.3).astype(np.int8)
    return _grid(life_kernel, life_compiled, _life_numpy, cells)


WEIGHTS = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]).astype(np.float32) / 256


@cuda.jit
def convolution_kernel(image, out):
    weights = cuda.const.array_like(WEIGHTS)
    x, y = cuda.grid(2)
    height, width = image.shape
    total = float32(0.0)
    for j in range(5):
        for i in range(5):
            line, column = y + j - 2, x + i - 2
            if 0 <= line < height and 0 <= column < width:
                total += weights[j, i] * image[line, column]
    out[y, x] = total


@njit(parallel=True)
def convolution_compiled(image, out):
    height, width = image.shape
    for y in prange(height):
        for x in range(width):
            total = np.float32(0.0)
            for j in range(5):
                for i in range(5):
                    line, column = y + j - 2, x + i - 2
                    if 0 <= line < height and 0 <= column < width:
                        total += WEIGHTS[j, i] * image[line, column]
            out[y, x] = total


def _convolution_numpy(image, out):
    padded = np.pad(image, 2)
    out[:] = 0
    for j, i in np.ndindex(5, 5):
        out += WEIGHTS[j, i] * padded[j : j + image.shape[0], i : i + image.shape[1]]


def convolution(n: int = 512) -> Exercise:
    return _grid(convolution_kernel, convolution_compiled, _convolution_numpy, random(n, n))
