"""numba with link-time optimisation, which is its default where nvJitLink can do it, and without."""

import numpy as np
from numba import cuda

SOURCE = 'extern "C" __device__ int squared(int* out, int x) { *out = x * x; return 0; }'
squared = cuda.declare_device("squared", "int32(int32)", link=cuda.CUSource(SOURCE, name="squared.cu"))


@cuda.jit(device=True)
def shifted(x):
    return x + 7


def each(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = shifted(squared(x[i]))


def all_together(x):
    grid, i = cuda.cg.this_grid(), cuda.grid(1)
    x[i] += 1
    grid.sync()
    other = x[(i + 1) % x.size]
    grid.sync()
    x[i] += other


for options in ({"lto": True}, {"lto": False}, {}):
    numbers = cuda.to_device(np.arange(64, dtype=np.int32))
    cuda.jit(**options)(each)[1, 64](numbers)
    print(options, np.array_equal(numbers.copy_to_host(), np.arange(64) ** 2 + 7))

numbers = cuda.to_device(np.arange(64, dtype=np.int32))
cuda.jit(lto=True)(all_together)[2, 32](numbers)
before = np.arange(64) + 1
print("cooperative:", np.array_equal(numbers.copy_to_host(), before + np.roll(before, -1)))
kernel = cuda.jit("void(int32[:])", lto=True)(each)
print("one piece:", "squared" not in next(iter(kernel.inspect_lto_ptx().values())))

# prints:
# {'lto': True} True
# {'lto': False} True
# {} True
# cooperative: True
# one piece: True
