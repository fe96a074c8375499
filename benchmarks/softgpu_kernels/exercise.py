"""What one kernel of the course is to the benchmark, and how it is timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
from numba import cuda
from numpy.typing import NDArray

ROUNDS = 7
SEED = 4


@dataclass(frozen=True)
class Exercise:
    """``device`` launches and may leave work running, ``compiled`` is numba's version for the CPU of the same
    algorithm and ``numpy`` NumPy's, where it has one. ``check`` holds after ``device`` has run once."""

    operation: str
    operations: int
    device: Callable[[], object]
    check: Callable[[], None]
    compiled: Callable[[], object]
    numpy: Callable[[], object] | None = None


class Measured(TypedDict):
    operation: str
    operations: int
    device_s: float
    compiled_s: float
    numpy_s: float | None
    compiled_over_device: float


def random(*shape: int, dtype: type = np.float32) -> NDArray:
    return np.random.default_rng(SEED).random(shape).astype(dtype)


def seconds(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    call()
    return clock() - start


def measure(exercise: Exercise, clock: Callable[[], float]) -> Measured:
    """Medians of rounds in which each side has a turn, so that what else the machine does meets all."""

    def device() -> None:
        exercise.device()
        cuda.synchronize()

    device()
    exercise.check()
    exercise.compiled()
    if exercise.numpy:
        exercise.numpy()
    on_device, compiled, numpy = [], [], []
    for _ in range(ROUNDS):
        on_device.append(seconds(device, clock))
        compiled.append(seconds(exercise.compiled, clock))
        if exercise.numpy:
            numpy.append(seconds(exercise.numpy, clock))
    return {
        "operation": exercise.operation,
        "operations": exercise.operations,
        "device_s": statistics.median(on_device),
        "compiled_s": statistics.median(compiled),
        "numpy_s": statistics.median(numpy) if numpy else None,
        "compiled_over_device": statistics.median(d / c for d, c in zip(on_device, compiled, strict=True)),
    }
