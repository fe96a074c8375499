"""Calls cuFFT with arguments of which no two are alike: prints as JSON what it passed."""

from __future__ import annotations

import ctypes
import json
import sys

from cuda.bindings import driver

from tests.libraries.on_device import start
from tests.libraries.transforms import C2C, D2Z, FORWARD, INVERSE, Cufft, ints, long

start()
fft = Cufft(sys.argv[1])


def memory() -> int:
    error, address = driver.cuMemAlloc(1 << 20)
    assert error == 0
    return int(address)


def at(address: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(address)


def free() -> int:
    return int(driver.cuMemGetInfo()[1])


a, b = memory(), memory()
_, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
passed: dict[str, object] = {"memory": [f"{a:#x}", f"{b:#x}"]}
before = free()

many = fft.plan("cufftPlanMany", 2, ints([6, 8]), ints([7, 9]), 2, 130, ints([10, 11]), 3, 340, D2Z, 5)
fft("cufftExecD2Z", many, at(a), at(b))
fft("cufftSetStream", many, ctypes.c_void_p(int(stream)))
fft("cufftExecD2Z", many, at(b), at(a))
driver.cuCtxSynchronize()
passed["held"] = before - free()
driver.cuStreamDestroy(stream)  # the plan's end does not need it
fft("cufftDestroy", many)
driver.cuCtxSynchronize()
passed["given back"] = free() == before

row, size = fft.create(), ctypes.c_size_t()
layout = None, long(1), long(0)
fft(
    *("cufftXtMakePlanMany", row, 1, ints([64], long), *layout, 6),
    *(*layout, 6, long(4), ctypes.byref(size), 6),
)
fft("cufftXtExec", row, at(a), at(a), INVERSE)
driver.cuCtxSynchronize()

far = fft.plan("cufftPlanMany", 1, ints([16]), ints([16]), 1, 16, ints([16]), 1, 1 << 28, C2C, 2)
passed["outside"] = [
    fft.status("cufftExecC2C", far, at(a), at(b), FORWARD),
    int(driver.cuCtxSynchronize()[0]),
]
refused = fft.plan("cufftPlan1d", 13, C2C, 1)
passed["refused"] = [
    fft.status("cufftExecC2C", refused, at(a), at(b), FORWARD),
    int(driver.cuCtxSynchronize()[0]),
]
print(json.dumps(passed))
