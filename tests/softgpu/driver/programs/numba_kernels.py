"""What a first course does with numba: each kernel checked against NumPy."""

import math

import numpy as np
from numba import cuda, float32, float64

cuda.config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
cuda.config.CUDA_WARN_ON_IMPLICIT_COPY = 0
TILE = 16
rng = np.random.default_rng(1)


@cuda.jit
def add(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


@cuda.jit
def matmul(a, b, c):
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range(a.shape[1] // TILE):
        left[ty, tx] = a[y, k * TILE + tx]
        right[ty, tx] = b[k * TILE + ty, x]
        cuda.syncthreads()
        for j in range(TILE):
            total += left[ty, j] * right[j, tx]
        cuda.syncthreads()
    c[y, x] = total


@cuda.jit
def total(a, out):
    i = cuda.grid(1)
    value = a[i] if i < a.size else float64(0)
    offset = 16
    while offset > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
        offset //= 2
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, value)


@cuda.jit
def histogram(data, bins):
    i = cuda.grid(1)
    if i < data.size:
        cuda.atomic.add(bins, data[i], 1)


@cuda.jit
def mathematics(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = math.sin(x[i]) * math.exp(-x[i]) + math.log(x[i] + 1) + math.erf(x[i]) + x[i] ** 1.5


@cuda.reduce
def largest(a, b):
    return max(a, b)


n = 10_000
blocks = (n + 255) // 256
a, b = rng.random(n, dtype=np.float32), rng.random(n, dtype=np.float32)
c = np.zeros_like(a)
add[blocks, 256](a, b, c)
np.testing.assert_array_equal(c, a + b)

left, right = rng.random((64, 48), dtype=np.float32), rng.random((48, 64), dtype=np.float32)
product = cuda.device_array((64, 64), np.float32)
matmul[(64 // TILE, 64 // TILE), (TILE, TILE)](cuda.to_device(left), cuda.to_device(right), product)
np.testing.assert_allclose(product.copy_to_host(), left @ right, rtol=1e-5)

wide = rng.random(n)
sums = np.zeros(1)
total[blocks, 256](wide, sums)
np.testing.assert_allclose(sums[0], wide.sum())
assert largest(a) == a.max()

data = rng.integers(0, 50, n).astype(np.int32)
bins = np.zeros(50, np.int32)
histogram[blocks, 256](data, bins)
np.testing.assert_array_equal(bins, np.bincount(data, minlength=50))

x = np.linspace(0.01, 5, 500)
y = np.zeros_like(x)
mathematics[2, 256](x, y)
erf = np.array([math.erf(value) for value in x])
np.testing.assert_allclose(y, np.sin(x) * np.exp(-x) + np.log(x + 1) + erf + x**1.5, rtol=1e-12)

stream = cuda.stream()
start, end = cuda.event(), cuda.event()
pinned = cuda.pinned_array(n, np.float32)
pinned[:] = a
with stream.auto_synchronize():
    there = cuda.to_device(pinned, stream=stream)
    start.record(stream)
    add[blocks, 256, stream](there, there, there)
    end.record(stream)
    there.copy_to_host(pinned, stream=stream)
np.testing.assert_array_equal(pinned, a + a)
assert cuda.event_elapsed_time(start, end) >= 0
assert "software gpu" in cuda.get_current_device().name.lower()
print("right")
