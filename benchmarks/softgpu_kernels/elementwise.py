"""A thread an element: what a course begins with."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, njit, prange

from benchmarks.softgpu_kernels.exercise import Exercise, random

BLOCK = 256


@cuda.jit
def add_kernel(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]


@njit(parallel=True)
def add_compiled(a, b, out):
    for i in prange(out.size):
        out[i] = a[i] + b[i]


def _addition(dtype: type, n: int) -> Exercise:
    a, b = random(2, n, dtype=dtype)
    out = np.empty_like(a)
    da, db, dout = cuda.to_device(a), cuda.to_device(b), cuda.to_device(out)
    return Exercise(
        "element",
        n,
        lambda: add_kernel[n // BLOCK, BLOCK](da, db, dout),
        lambda: np.testing.assert_array_equal(dout.copy_to_host(), a + b),
        lambda: add_compiled(a, b, out),
        lambda: np.add(a, b, out=out),
    )


def vector_add(n: int = 1 << 21) -> Exercise:
    return _addition(np.float32, n)


def vector_add_float64(n: int = 1 << 20) -> Exercise:
    return _addition(np.float64, n)


@cuda.jit
def saxpy_kernel(alpha, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = alpha * x[i] + y[i]


@njit(parallel=True)
def saxpy_compiled(alpha, x, y):
    for i in prange(x.size):
        y[i] = alpha * x[i] + y[i]


def saxpy(n: int = 1 << 21) -> Exercise:
    x, y = random(2, n)
    alpha = np.float32(1.5)
    expected = alpha * x + y
    dx, dy, work = cuda.to_device(x), cuda.to_device(y), y.copy()

    def with_numpy() -> None:
        np.add(np.multiply(x, alpha), work, out=work)

    return Exercise(
        "element",
        n,
        lambda: saxpy_kernel[n // BLOCK, BLOCK](alpha, dx, dy),
        lambda: np.testing.assert_allclose(dy.copy_to_host(), expected, rtol=1e-6),
        lambda: saxpy_compiled(alpha, x, work),
        with_numpy,
    )


def _cumulative_normal(x):
    k = np.float32(1.0) / (np.float32(1.0) + np.float32(0.2316419) * abs(x))
    sum_ = k * (
        np.float32(0.31938153)
        + k
        * (
            np.float32(-0.356563782)
            + k * (np.float32(1.781477937) + k * (np.float32(-1.821255978) + k * np.float32(1.330274429)))
        )
    )
    tail = np.float32(0.39894228) * math.exp(np.float32(-0.5) * x * x) * sum_
    return np.float32(1.0) - tail if x > 0 else tail


normal_on_device = cuda.jit(device=True)(_cumulative_normal)
normal_compiled = njit(_cumulative_normal)


@cuda.jit
def black_scholes_kernel(price, strike, years, rate, volatility, call):
    i = cuda.grid(1)
    if i < price.size:
        root = math.sqrt(years[i])
        drift = (rate + np.float32(0.5) * volatility * volatility) * years[i]
        d1 = (math.log(price[i] / strike[i]) + drift) / (volatility * root)
        d2 = d1 - volatility * root
        discounted = strike[i] * math.exp(-rate * years[i])
        call[i] = price[i] * normal_on_device(d1) - discounted * normal_on_device(d2)


@njit(parallel=True)
def black_scholes_compiled(price, strike, years, rate, volatility, call):
    for i in prange(price.size):
        root = math.sqrt(years[i])
        drift = (rate + np.float32(0.5) * volatility * volatility) * years[i]
        d1 = (math.log(price[i] / strike[i]) + drift) / (volatility * root)
        d2 = d1 - volatility * root
        discounted = strike[i] * math.exp(-rate * years[i])
        call[i] = price[i] * normal_compiled(d1) - discounted * normal_compiled(d2)


def black_scholes(n: int = 1 << 19) -> Exercise:
    price, strike, years = random(3, n)
    price, strike, years = price * 25 + 5, strike * 99 + 1, years * 9 + np.float32(0.25)
    rate, volatility = np.float32(0.02), np.float32(0.3)
    call = np.empty_like(price)
    arrays = [cuda.to_device(array) for array in (price, strike, years)]
    dcall = cuda.to_device(call)

    def check() -> None:
        black_scholes_compiled(price, strike, years, rate, volatility, call)
        np.testing.assert_allclose(dcall.copy_to_host(), call, rtol=1e-3, atol=1e-4)

    return Exercise(
        "option",
        n,
        lambda: black_scholes_kernel[n // BLOCK, BLOCK](*arrays, rate, volatility, dcall),
        check,
        lambda: black_scholes_compiled(price, strike, years, rate, volatility, call),
    )
