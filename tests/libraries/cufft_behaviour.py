"""How cuFFT behaves beside its results: ``cufft_behaviour.py WHAT LIBRARY`` prints that as JSON."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading

import numpy as np
from cuda.bindings import driver

from tests.libraries.on_device import OnDevice, start
from tests.libraries.transforms import C2C, FORWARD, INVERSE, R2C, Cufft, at, far, ints, long, random

what, path = sys.argv[1:]
start()
fft = Cufft(path)


def misfits() -> dict[str, int]:
    """Each argument that does not go together with the others, one at a time."""
    plan = ctypes.c_int(-1)

    def many(rank: int, n: list[int], embed: list[int], stride: int, distance: int, batch: int) -> int:
        given = ints(n), ints(embed), stride, distance, ints(embed), stride, distance
        return fft.status("cufftPlanMany", ctypes.byref(plan), rank, *given, C2C, batch)

    said = {
        "rank": many(4, [2, 2, 2, 2], [2, 2, 2, 2], 1, 16, 1),
        "no rank": many(0, [2], [2], 1, 2, 1),
        "size": many(1, [0], [2], 1, 2, 1),
        "negative": many(2, [4, -4], [4, 4], 1, 16, 1),
        "rows": many(2, [4, 4], [4, 3], 1, 16, 1),
        "stride": many(1, [4], [4], 0, 4, 1),
        "distance": many(1, [4], [4], 1, -4, 2),
        "batch": many(1, [4], [4], 1, 4, 0),
        "type": fft.status("cufftPlan1d", ctypes.byref(plan), 4, 0x30, 1),
    }
    assert plan.value == -1
    good, buffer = fft.plan("cufftPlan1d", 4, C2C, 1), OnDevice(np.zeros(4, "complex64"))
    said["direction"] = fft.status("cufftExecC2C", good, at(buffer), at(buffer), 0)
    said["input"] = fft.status("cufftExecC2C", good, None, at(buffer), FORWARD)
    said["kind"] = fft.status("cufftExecR2C", good, at(buffer), at(buffer))
    assert fft.status("cufftMakePlan1d", good, 4, C2C, 1, None) == 1
    return said


def plans() -> dict[str, int]:
    """Those that are none: never made, made half, destroyed."""
    buffer, size = OnDevice(np.zeros(4, "complex64")), ctypes.c_size_t()
    half, gone = fft.create(), fft.plan("cufftPlan1d", 4, C2C, 1)
    fft("cufftDestroy", gone)
    return {
        "never": fft.status("cufftExecC2C", 4711, at(buffer), at(buffer), FORWARD),
        "half": fft.status("cufftExecC2C", half, at(buffer), at(buffer), FORWARD),
        "gone": fft.status("cufftExecC2C", gone, at(buffer), at(buffer), FORWARD),
        "again": fft.status("cufftDestroy", gone),
        "stream": fft.status("cufftSetStream", gone, None),
        "size": fft.status("cufftGetSize", gone, ctypes.byref(size)),
        "area": fft.status("cufftSetWorkArea", gone, None),
    }


def sizes() -> dict[str, int]:
    """What plans take to work in, before and after they are made."""
    answers, size, plan = {}, ctypes.c_size_t(99), fft.plan("cufftPlan2d", 4, 6, C2C)
    asked = {
        "cufftGetSize": (plan,),
        "cufftEstimate1d": (8, C2C, 2),
        "cufftEstimate2d": (8, 4, C2C),
        "cufftEstimate3d": (8, 4, 3, R2C),
        "cufftGetSize1d": (plan, 8, C2C, 2),
        "cufftGetSize3d": (plan, 8, 2, 2, C2C),
        "cufftEstimateMany": (1, ints([4]), None, 1, 0, None, 1, 0, C2C, 3),
        "cufftGetSizeMany64": (
            plan,
            1,
            ints([4], long),
            None,
            long(1),
            long(0),
            None,
            long(1),
            long(0),
            C2C,
            long(3),
        ),
    }
    for name, arguments in asked.items():
        size.value = 99
        fft(name, *arguments, ctypes.byref(size))
        answers[name] = size.value
    fft("cufftSetAutoAllocation", plan, 0)
    return answers


def unsupported() -> dict[str, int]:
    """Half precision of sizes that are no powers of two, and types that do not go together."""
    size = ctypes.c_size_t()

    def typed(n: int, before: int, after: int, execution: int) -> int:
        layout = None, long(1), long(0)
        given = 1, ints([n], long), *layout, before, *layout, after, long(1), ctypes.byref(size), execution
        return fft.status("cufftXtMakePlanMany", fft.create(), *given)

    return {
        "size": typed(12, 6, 6, 6),
        "mixed": typed(8, 4, 5, 4),
        "real": typed(8, 0, 0, 4),
        "bytes": typed(8, 3, 3, 3),
    }


def after(status: int) -> dict[str, int]:
    (error,) = driver.cuCtxSynchronize()
    return {"status": status, "after": int(error)}


def outside() -> dict[str, int]:
    """Batches that reach far beyond the output."""
    buffer = OnDevice(np.zeros(32, "complex64"))
    plan = fft.plan("cufftPlanMany", 1, ints([16]), ints([16]), 1, 16, ints([16]), 1, 1 << 28, C2C, 2)
    return after(fft.status("cufftExecC2C", plan, at(buffer), at(buffer), FORWARD))


def wrapping() -> dict[str, int]:
    """Sizes whose product is more than 64 bits hold."""
    buffer, size, huge = OnDevice(np.zeros(16, "complex64")), ctypes.c_size_t(), long(1 << 62)
    plan, n = fft.create(), ints([4, 4], long)
    layout = ints([4, 1 << 62], long), huge, huge
    fft("cufftMakePlanMany64", plan, 2, n, *layout, *layout, C2C, long(1 << 40), ctypes.byref(size))
    return after(fft.status("cufftExecC2C", plan, at(buffer), at(buffer), FORWARD))


def many_elements() -> dict[str, int]:
    """More elements than there is memory, one behind another."""
    buffer, size, plan = OnDevice(np.zeros(16, "complex64")), ctypes.c_size_t(), fft.create()
    n, none = ints([1 << 21, 1 << 21, 1 << 21], long), (None, long(1), long(0))
    fft("cufftMakePlanMany64", plan, 3, n, *none, *none, C2C, long(1), ctypes.byref(size))
    return after(fft.status("cufftExecC2C", plan, at(buffer), at(buffer), FORWARD))


def foreign() -> dict[str, int]:
    """This process's own memory, which is no device's."""
    buffer, own = OnDevice(np.zeros(16, "complex64")), np.zeros(16, "complex64")
    plan = fft.plan("cufftPlan1d", 16, C2C, 1)
    return after(fft.status("cufftExecC2C", plan, ctypes.c_void_p(own.ctypes.data), at(buffer), FORWARD))


def misaligned() -> dict[str, int]:
    buffer = OnDevice(np.zeros(32, "complex64"))
    plan = fft.plan("cufftPlan1d", 16, C2C, 1)
    address = ctypes.c_void_p(int(buffer.address) + 2)
    return after(fft.status("cufftExecC2C", plan, address, at(buffer), FORWARD))


def order() -> dict[str, bool]:
    """Between other work of a stream, with nothing that waits, and there and back."""
    _, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    plan, n = fft.plan("cufftPlan1d", 1 << 16, C2C, 8), 1 << 19
    fft("cufftSetStream", plan, ctypes.c_void_p(int(stream)))
    first = random("complex64", n)
    buffer, copy, result = OnDevice(first), OnDevice(first), np.zeros_like(first)
    for _ in range(3):
        driver.cuMemcpyDtoDAsync(copy.address, buffer.address, first.nbytes, stream)
        fft("cufftExecC2C", plan, at(copy), at(copy), FORWARD)
        fft("cufftExecC2C", plan, at(copy), at(copy), INVERSE)
        driver.cuMemcpyDtoDAsync(buffer.address, copy.address, first.nbytes, stream)
    driver.cuMemcpyDtoHAsync(result.ctypes.data, buffer.address, first.nbytes, stream)
    driver.cuStreamSynchronize(stream)
    fft("cufftDestroy", plan)
    return {"right": far(result, first.astype("complex128") * float(1 << 48)) < 1e-4}


def threads() -> dict[str, int]:
    """One plan, and plans of their own, from threads at once."""
    shared, wrong = fft.plan("cufftPlan1d", 64, C2C, 4), []
    given = random("complex64", 256)
    wanted = np.fft.fft(given.reshape(4, 64).astype("complex128")).ravel()

    def work(own: bool) -> None:
        start()
        for _ in range(10):
            plan = fft.plan("cufftPlan1d", 64, C2C, 4) if own else shared
            source, target = OnDevice(given), OnDevice(np.zeros_like(given))
            fft("cufftExecC2C", plan, at(source), at(target), FORWARD)
            if far(target.get(), wanted) > 1e-5:
                wrong.append(own)
            if own:
                fft("cufftDestroy", plan)

    each = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(8)]
    for thread in each:
        thread.start()
    for thread in each:
        thread.join()
    return {"wrong": len(wrong)}


def captured() -> dict[str, int]:
    _, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    plan, buffer = fft.plan("cufftPlan1d", 4, C2C, 1), OnDevice(np.ones(4, "complex64"))
    fft("cufftSetStream", plan, ctypes.c_void_p(int(stream)))
    driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    status = fft.status("cufftExecC2C", plan, at(buffer), at(buffer), FORWARD)
    error, _ = driver.cuStreamEndCapture(stream)
    again = fft.status("cufftExecC2C", plan, at(buffer), at(buffer), FORWARD)
    driver.cuStreamSynchronize(stream)
    return {"status": status, "end": int(error), "again": again, "value": int(buffer.get()[0].real)}


def ended_in_a_capture() -> dict[str, int]:
    """A plan that has run ends while its stream is captured."""
    _, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    plan, buffer = fft.plan("cufftPlan1d", 4, C2C, 1), OnDevice(np.ones(4, "complex64"))
    fft("cufftSetStream", plan, ctypes.c_void_p(int(stream)))
    fft("cufftExecC2C", plan, at(buffer), at(buffer), FORWARD)
    driver.cuStreamSynchronize(stream)
    driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    status = fft.status("cufftDestroy", plan)
    error, _ = driver.cuStreamEndCapture(stream)
    return {"status": status, "end": int(error)}


def full() -> dict[str, int]:
    """A large transform in a full slice is refused; a small one after it is not."""
    n, (_, free, _) = 1 << 22, driver.cuMemGetInfo()
    large, small = fft.plan("cufftPlan1d", n, C2C, 1), fft.plan("cufftPlan1d", 4, C2C, 1)
    _, memory = driver.cuMemAlloc(free - (16 << 20))
    whole, buffer = ctypes.c_void_p(int(memory)), OnDevice(np.ones(4, "complex64"))
    status = fft.status("cufftExecC2C", large, whole, whole, FORWARD)
    (error,) = driver.cuCtxSynchronize()
    fft("cufftExecC2C", small, at(buffer), at(buffer), FORWARD)
    return {"status": status, "after": int(error), "again": int(driver.cuCtxSynchronize()[0])}


def forked() -> dict[str, bool]:
    """The process forks while transforms run: neither waits for the other."""
    n, batch = 1 << 10, 1 << 12
    plan, a = fft.plan("cufftPlan1d", n, C2C, batch), random("complex64", batch * n).reshape(batch, n)
    on, out = OnDevice(a), OnDevice(np.zeros_like(a))
    for _ in range(20):
        fft("cufftExecC2C", plan, at(on), at(out), FORWARD)
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    driver.cuCtxSynchronize()
    return {"right": far(out.get(), np.fft.fft(a)) < 1e-5}


def not_a_number() -> dict[str, bool]:
    """It is in all of its batch's result, and in no other's."""
    for n in (8, 96, 101, 1009):  # by its factors, with a prime, by a convolution
        a = random("complex64", 9 * n).reshape(9, n)
        a[4, n // 2] = np.nan
        on, plan = OnDevice(a), fft.plan("cufftPlan1d", n, C2C, 9)
        fft("cufftExecC2C", plan, at(on), at(on), FORWARD)
        driver.cuCtxSynchronize()
        found = np.isnan(on.get())
        if not found[4].all() or np.delete(found, 4, 0).any():
            return {"right": False, "n": n}
    return {"right": True}


print(json.dumps(globals()[what]()))
