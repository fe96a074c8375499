"""Products in two streams, in the first one again, and in a new one after that has ended."""

from __future__ import annotations

import ctypes
import sys

from cuda.bindings import driver

from tests.libraries.on_device import Cublas, Value, start

start()
blas, one = Cublas(sys.argv[1]), Value(1, "float32")
_, memory = driver.cuMemAlloc(1 << 20)


def stream() -> int:
    _, made = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    return int(made)


def product(on: int) -> None:
    at = ctypes.c_void_p(int(memory))
    assert blas.library.cublasSetStream_v2(blas.handle, ctypes.c_void_p(on)) == 0
    given = (0, 0, 2, 2, 2, one.pointer(), at, 2, at, 2, one.pointer(), at, 2)
    assert blas.status("cublasSgemm_v2", *given) == 0


first, second = stream(), stream()
for each in (first, second, first):
    product(each)
driver.cuStreamDestroy(first)
product(stream())
driver.cuCtxSynchronize()
