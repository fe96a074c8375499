"""Much arithmetic to little memory: sampling, loops of different length, bodies that attract each other."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, njit, prange
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

from benchmarks.softgpu_kernels.exercise import Exercise, random


@cuda.jit
def pi_kernel(states, draws, hits):
    i = cuda.grid(1)
    inside = 0
    for _ in range(draws):
        x = xoroshiro128p_uniform_float32(states, i)
        y = xoroshiro128p_uniform_float32(states, i)
        if x * x + y * y <= 1.0:
            inside += 1
    cuda.atomic.add(hits, 0, inside)


@njit(parallel=True)
def pi_compiled(threads, draws):
    hits = 0
    for _thread in prange(threads):
        inside = 0
        for _ in range(draws):
            x, y = np.float32(np.random.random()), np.float32(np.random.random())
            if x * x + y * y <= 1.0:
                inside += 1
        hits += inside
    return hits


def monte_carlo_pi(threads: int = 64 * 128, draws: int = 256) -> Exercise:
    states = create_xoroshiro128p_states(threads, seed=1)
    hits = cuda.to_device(np.zeros(1, np.int64))

    def check() -> None:
        assert abs(4 * hits.copy_to_host()[0] / (threads * draws) - np.pi) < 0.02

    return Exercise(
        "sample",
        threads * draws,
        lambda: pi_kernel[threads // 128, 128](states, draws, hits),
        check,
        lambda: pi_compiled(threads, draws),
        lambda: np.count_nonzero(np.square(np.random.random((2, threads * draws))).sum(axis=0) <= 1),
    )


def _escape(x, y, limit):
    zx = zy = np.float32(0.0)
    for n in range(limit):
        if zx * zx + zy * zy > np.float32(4.0):
            return n
        zx, zy = zx * zx - zy * zy + x, np.float32(2.0) * zx * zy + y
    return limit


escape_on_device = cuda.jit(device=True)(_escape)
escape_compiled = njit(_escape)


@cuda.jit
def mandelbrot_kernel(image, limit):
    column, line = cuda.grid(2)
    if line < image.shape[0] and column < image.shape[1]:
        x = np.float32(-2.0) + column * np.float32(3.0 / image.shape[1])
        y = np.float32(-1.0) + line * np.float32(2.0 / image.shape[0])
        image[line, column] = escape_on_device(x, y, limit)


@njit(parallel=True)
def mandelbrot_compiled(image, limit):
    for line in prange(image.shape[0]):
        for column in range(image.shape[1]):
            x = np.float32(-2.0) + column * np.float32(3.0 / image.shape[1])
            y = np.float32(-1.0) + line * np.float32(2.0 / image.shape[0])
            image[line, column] = escape_compiled(x, y, limit)


def mandelbrot(width: int = 384, height: int = 256, limit: int = 200) -> Exercise:
    image = np.zeros((height, width), np.int32)
    dimage = cuda.to_device(image)
    mandelbrot_compiled(image, limit)

    def check() -> None:  # points at the edge may go either way by the last bit of x and y
        assert np.count_nonzero(dimage.copy_to_host() != image) < image.size / 100

    return Exercise(
        "loop turn",
        int(image.sum()),
        lambda: mandelbrot_kernel[(width // 16, height // 16), (16, 16)](dimage, limit),
        check,
        lambda: mandelbrot_compiled(image, limit),
    )


def _collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


collatz_on_device = cuda.jit(device=True)(_collatz)
collatz_step = njit(_collatz)


@cuda.jit
def collatz_kernel(out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = collatz_on_device(np.uint64(i + 1))


@njit(parallel=True)
def collatz_compiled(out):
    for i in prange(out.size):
        out[i] = collatz_step(np.uint64(i + 1))


def collatz(n: int = 1 << 15) -> Exercise:
    out = np.zeros(n, np.int32)
    dout = cuda.to_device(out)
    collatz_compiled(out)
    return Exercise(
        "step",
        int(out.sum()),
        lambda: collatz_kernel[n // 128, 128](dout),
        lambda: np.testing.assert_array_equal(dout.copy_to_host(), out),
        lambda: collatz_compiled(out),
    )


@cuda.jit
def nbody_kernel(bodies, out):
    tile = cuda.shared.array((128, 4), float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    x, y, z = bodies[i, 0], bodies[i, 1], bodies[i, 2]
    ax = ay = az = float32(0.0)
    for start in range(0, bodies.shape[0], 128):
        for part in range(4):
            tile[t, part] = bodies[start + t, part]
        cuda.syncthreads()
        for j in range(128):
            dx, dy, dz = tile[j, 0] - x, tile[j, 1] - y, tile[j, 2] - z
            square = dx * dx + dy * dy + dz * dz + float32(1e-3)
            inverse = float32(1.0) / math.sqrt(square)
            pull = tile[j, 3] * inverse * inverse * inverse
            ax += pull * dx
            ay += pull * dy
            az += pull * dz
        cuda.syncthreads()
    out[i, 0], out[i, 1], out[i, 2] = ax, ay, az


@njit(parallel=True)
def nbody_compiled(bodies, out):
    for i in prange(bodies.shape[0]):
        x, y, z = bodies[i, 0], bodies[i, 1], bodies[i, 2]
        ax = ay = az = np.float32(0.0)
        for j in range(bodies.shape[0]):
            dx, dy, dz = bodies[j, 0] - x, bodies[j, 1] - y, bodies[j, 2] - z
            square = dx * dx + dy * dy + dz * dz + np.float32(1e-3)
            inverse = np.float32(1.0) / np.float32(math.sqrt(square))
            pull = bodies[j, 3] * inverse * inverse * inverse
            ax += pull * dx
            ay += pull * dy
            az += pull * dz
        out[i, 0], out[i, 1], out[i, 2] = ax, ay, az


def n_body(n: int = 2048) -> Exercise:
    bodies = random(n, 4)
    out = np.zeros((n, 3), np.float32)
    dbodies, dout = cuda.to_device(bodies), cuda.to_device(out)
    nbody_compiled(bodies, out)
    return Exercise(
        "pair",
        n * n,
        lambda: nbody_kernel[n // 128, 128](dbodies, dout),
        lambda: np.testing.assert_allclose(dout.copy_to_host(), out, rtol=1e-2, atol=1e-2),
        lambda: nbody_compiled(bodies, out),
    )
