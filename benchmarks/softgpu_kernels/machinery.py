"""What costs time beside a kernel's own work: barriers, launches, loading; and what a second core brings.

As a program: one JSON object; with ``turns``, for each line on standard input the seconds of one launch,
by the clock and of CPU time.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import sys
import time

import numpy as np
from numba import cuda, float32

from benchmarks.softgpu_kernels.exercise import seconds

BARRIERS, BLOCK = 1000, 256
SAMPLES = 15
TURNS_BLOCKS = 256

SMALL_MODULE = """
.version 8.0
.target sm_75
.address_size 64
.visible .entry scale_%d(.param .u64 values, .param .u32 count, .param .f32 by)
{
    .reg .pred %%p<2>;
    .reg .b32 %%r<6>;
    .reg .f32 %%f<4>;
    .reg .b64 %%d<5>;
    ld.param.u64 %%d1, [values];
    ld.param.u32 %%r1, [count];
    ld.param.f32 %%f1, [by];
    mov.u32 %%r2, %%ctaid.x;
    mov.u32 %%r3, %%ntid.x;
    mov.u32 %%r4, %%tid.x;
    mad.lo.s32 %%r5, %%r2, %%r3, %%r4;
    setp.ge.u32 %%p1, %%r5, %%r1;
    @%%p1 bra done;
    cvta.to.global.u64 %%d2, %%d1;
    mul.wide.u32 %%d3, %%r5, 4;
    add.s64 %%d4, %%d2, %%d3;
    ld.global.f32 %%f2, [%%d4];
    mul.f32 %%f3, %%f2, %%f1;
    st.global.f32 [%%d4], %%f3;
done:
    ret;
}
"""


@cuda.jit
def barriers(count):
    for _ in range(count):
        cuda.syncthreads()


@cuda.jit
def empty():
    pass


@cuda.jit
def orbits(out, turns):
    i = cuda.grid(1)
    x = float32(i) * float32(1e-6)
    for _ in range(turns):
        x = float32(3.7) * x * (float32(1.0) - x)
    out[i] = x


def _once(launch) -> float:
    def call() -> None:
        launch()
        cuda.synchronize()

    return seconds(call)


def _median(sample) -> float:
    sample()
    return statistics.median(sample() for _ in range(SAMPLES))


def _loader():
    """A function that loads and unloads a PTX text, and returns the load's seconds."""
    cuda.current_context()
    driver = ctypes.CDLL("libcuda.so.1")

    def load(text: bytes) -> float:
        module = ctypes.c_void_p()
        result = []
        taken = seconds(lambda: result.append(driver.cuModuleLoadData(ctypes.byref(module), text)))
        assert result == [0], result
        assert driver.cuModuleUnload(module) == 0
        return taken

    return load


def measure() -> dict[str, float]:
    load = _loader()
    texts = iter([(SMALL_MODULE % number).encode() for number in range(SAMPLES + 1)])
    same = (SMALL_MODULE % 0).encode()
    return {
        "barrier_ns": _median(lambda: _once(lambda: barriers[1, BLOCK](BARRIERS))) * 1e9 / (BARRIERS * BLOCK),
        "launch_us": _median(lambda: _once(lambda: empty[1, 32]())) * 1e6,
        "load_ms": _median(lambda: load(next(texts))) * 1e3,
        "load_again_ms": _median(lambda: load(same)) * 1e3,
    }


def take_turns() -> None:
    out = cuda.to_device(np.zeros(TURNS_BLOCKS * BLOCK, np.float32))

    def launch() -> None:
        orbits[TURNS_BLOCKS, BLOCK](out, 1000)

    _once(launch)
    for _ in sys.stdin:
        before = time.process_time()
        print(_once(launch), time.process_time() - before, flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["turns"]:
        take_turns()
    else:
        json.dump(measure(), sys.stdout)
