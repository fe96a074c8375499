"""Products and transposition; an operation of a product is a multiplication or an addition."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, float64, njit, prange

from benchmarks.softgpu_kernels.exercise import Exercise, random

TILE = 16
PADDED = TILE + 1  # columns of shared memory, so that a column is not in one bank


@cuda.jit
def naive_kernel(a, b, out):
    column, line = cuda.grid(2)
    if line < out.shape[0] and column < out.shape[1]:
        total = float32(0.0)
        for k in range(a.shape[1]):
            total += a[line, k] * b[k, column]
        out[line, column] = total


def tiled_kernel(kind):
    @cuda.jit
    def kernel(a, b, out):
        tile_a = cuda.shared.array((TILE, TILE), kind)
        tile_b = cuda.shared.array((TILE, TILE), kind)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        column, line = cuda.grid(2)
        total = kind(0.0)
        for step in range(a.shape[1] // TILE):
            tile_a[ty, tx] = a[line, tx + step * TILE]
            tile_b[ty, tx] = b[ty + step * TILE, column]
            cuda.syncthreads()
            for k in range(TILE):
                total += tile_a[ty, k] * tile_b[k, tx]
            cuda.syncthreads()
        out[line, column] = total

    return kernel


@njit(parallel=True)
def product_compiled(a, b, out):
    for line in prange(out.shape[0]):
        for column in range(out.shape[1]):
            total = out.dtype.type(0.0)
            for k in range(a.shape[1]):
                total += a[line, k] * b[k, column]
            out[line, column] = total


def _product(kernel, dtype: type, n: int) -> Exercise:
    a, b = random(2, n, n, dtype=dtype)
    out = np.zeros_like(a)
    da, db, dout = cuda.to_device(a), cuda.to_device(b), cuda.to_device(out)
    return Exercise(
        "operation",
        2 * n**3,
        lambda: kernel[(n // TILE, n // TILE), (TILE, TILE)](da, db, dout),
        lambda: np.testing.assert_allclose(dout.copy_to_host(), a @ b, rtol=1e-4),
        lambda: product_compiled(a, b, out),
        lambda: np.matmul(a, b, out=out),
    )


def naive_product(n: int = 256) -> Exercise:
    return _product(naive_kernel, np.float32, n)


def tiled_product(n: int = 256) -> Exercise:
    return _product(tiled_kernel(float32), np.float32, n)


def tiled_product_float64(n: int = 256) -> Exercise:
    return _product(tiled_kernel(float64), np.float64, n)


@cuda.jit
def vector_kernel(a, x, out):
    line = cuda.grid(1)
    if line < out.size:
        total = float32(0.0)
        for k in range(x.size):
            total += a[line, k] * x[k]
        out[line] = total


@njit(parallel=True)
def vector_compiled(a, x, out):
    for line in prange(out.size):
        total = np.float32(0.0)
        for k in range(x.size):
            total += a[line, k] * x[k]
        out[line] = total


def matrix_vector(n: int = 1024) -> Exercise:
    a, x = random(n, n), random(n)
    out = np.zeros(n, np.float32)
    da, dx, dout = cuda.to_device(a), cuda.to_device(x), cuda.to_device(out)
    return Exercise(
        "operation",
        2 * n * n,
        lambda: vector_kernel[n // 64, 64](da, dx, dout),
        lambda: np.testing.assert_allclose(dout.copy_to_host(), a @ x, rtol=1e-4),
        lambda: vector_compiled(a, x, out),
        lambda: np.matmul(a, x, out=out),
    )


@cuda.jit
def transpose_kernel(a, out):
    tile = cuda.shared.array((TILE, PADDED), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, line = cuda.blockIdx.x * TILE, cuda.blockIdx.y * TILE
    tile[ty, tx] = a[line + ty, column + tx]
    cuda.syncthreads()
    out[column + ty, line + tx] = tile[tx, ty]


@njit(parallel=True)
def transpose_compiled(a, out):
    for line in prange(out.shape[0]):
        for column in range(out.shape[1]):
            out[line, column] = a[column, line]


def transpose(n: int = 1024) -> Exercise:
    a = random(n, n)
    out = np.zeros_like(a)
    da, dout = cuda.to_device(a), cuda.to_device(out)
    return Exercise(
        "element",
        n * n,
        lambda: transpose_kernel[(n // TILE, n // TILE), (TILE, TILE)](da, dout),
        lambda: np.testing.assert_array_equal(dout.copy_to_host(), a.T),
        lambda: transpose_compiled(a, out),
        lambda: np.copyto(out, a.T),
    )
