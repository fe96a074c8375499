"""What machine code gives: three kernels of the course, by the software GPU's interpreter and by the trial.

Both run in one process and on one thread, through the tests' library (`softgpu_bench`), in turns, and what
counts is CPU time. The trial needs AVX-512; docs/design/softgpu.md says what it is and what was decided.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numba import cuda, float32, int32, types

from benchmarks.figures import Figure, main
from benchmarks.softgpu_kernels import matrices, neighbours, ordering
from tests.softgpu.bench import Buffer, Device, Dim, Module, executor

CODED = "x86-64-v4"  # where there is machine code
ROUNDS = 15
SEED = 4
COMPUTE_CAPABILITY = (7, 5)


@dataclass(frozen=True)
class Case:
    name: str
    kernel: Callable[..., None]
    arrays: Sequence[np.ndarray]  # the last one is the result
    grid: Dim
    block: Dim
    expected: np.ndarray
    operations: int


def cases(smallest: bool) -> list[Case]:
    random = np.random.default_rng(SEED)
    n, tile, block = 64 if smallest else 256, matrices.TILE, ordering.BLOCK
    a, b = random.random((2, n, n), dtype=np.float32)
    heat = random.random((4 * n, 4 * n), dtype=np.float32)
    warmed = np.zeros_like(heat)
    neighbours._heat_numpy(heat, warmed)
    values = random.integers(0, 100, n * block, np.int32)
    sums = values.reshape(-1, block).cumsum(axis=1, dtype=np.int32).reshape(-1)
    side = (n // 4, n // 4)
    return [
        Case(
            "tiled matrix product",
            matrices.tiled_kernel(float32),
            (a, b, np.zeros_like(a)),
            (n // tile, n // tile),
            (tile, tile),
            a @ b,
            2 * n**3,
        ),
        Case("stencil, 2D", neighbours.heat_kernel, (heat, warmed * 0), side, (16, 16), warmed, heat.size),
        Case(
            "scan",
            ordering.scan_kernel,
            (values, values * 0),
            values.size // block,
            block,
            sums,
            values.size,
        ),
    ]


def text_of(case: Case) -> str:
    kinds = {np.dtype(np.float32): float32, np.dtype(np.int32): int32}
    signature = types.void(*(types.Array(kinds[array.dtype], array.ndim, "C") for array in case.arrays))
    text, _ = cuda.compile_ptx(case.kernel.py_func, signature, cc=COMPUTE_CAPABILITY)
    return str(text)


def as_numba_passes(array: np.ndarray, buffer: Buffer) -> list[Buffer | int]:
    """Parent and owner of the memory, the array's size, an element's, its address, extents and strides."""
    return [0, 0, array.size, array.itemsize, buffer, *array.shape, *array.strides]


class Side:
    """One way to run a case."""

    def __init__(self, device: Device, case: Case, machine_code: bool) -> None:
        self.case = case
        device.machine_code(machine_code)
        self.module: Module = device.load(text_of(case))
        if machine_code:
            assert self.module.ops_with_code > 0
        self.buffers = [device.buffer(array) for array in case.arrays]
        self.arguments = [
            argument
            for array, buffer in zip(case.arrays, self.buffers, strict=True)
            for argument in as_numba_passes(array, buffer)
        ]
        self.launch()
        np.testing.assert_allclose(self.buffers[-1].get(), case.expected, rtol=1e-4)

    def launch(self) -> float:
        before = time.process_time()
        self.module(*self.arguments, grid=self.case.grid, block=self.case.block)
        return time.process_time() - before


def measure(smallest: bool) -> list[Figure]:
    """Of the interpreter alone where the machine has no AVX-512."""
    ways = {"interpreter": False, "machine code": True}
    if executor() != CODED:
        del ways["machine code"]
    device = Device(mib=256, threads=1)
    figures, ratios = [], []
    for case in cases(smallest):
        sides = [Side(device, case, machine_code) for machine_code in ways.values()]
        turns = [[side.launch() for side in sides] for _ in range(1 if smallest else ROUNDS)]
        for way, seconds in zip(ways, zip(*turns, strict=True), strict=True):
            rate = case.operations / statistics.median(seconds) / 1e6
            figures.append(Figure(f"{case.name}, {way}", rate, "M operations/s", "higher"))
        if len(sides) == 2:
            ratios.append(statistics.median(interpreted / coded for interpreted, coded in turns))
            figures.append(Figure(f"{case.name}, times faster", ratios[-1], "ratio", "higher", 3.0))
    device.close()
    if ratios:
        mean = statistics.geometric_mean(ratios)
        figures.append(Figure("geometric mean, times faster", mean, "ratio", "higher", 3.0))
    return figures


if __name__ == "__main__":
    main(measure, __doc__)
