"""What cuBLAS costs on a software GPU: products beside NumPy's on the CPU, straight and forwarded.

NumPy and the software GPU take turns in one process, on one core each, so that a busy machine slows both;
what is quoted is the median of their ratios. ``python -m benchmarks.libraries LIBRARY SIDE`` is that process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from time import perf_counter

from benchmarks.figures import Figure, main, median
from gpu_kernels.remoting.environment import SOFTGPU_THREADS
from gpu_kernels.remoting.paths import native_build
from tests.conformance.places import PLACES

LARGE = 1024
SMALL = 16
TURNS = 20
TIMES_NUMPYS = 1.3
"""How many times NumPy's time a large product may take straight."""


def measure(smallest: bool) -> list[Figure]:
    listed = []
    side = 64 if smallest else LARGE
    for place in ("straight", "forwarded"):
        with PLACES[place](1) as process, process() as environment:
            times = child(environment, side)
        aim = TIMES_NUMPYS if place == "straight" else None
        listed += [
            Figure(
                f"product of {side} by {side}, float32, {place}",
                times["ratio"],
                "times NumPy's",
                "lower",
                aim,
            ),
            Figure(
                f"product of {SMALL} by {SMALL}, not waited for, {place}", times["posted_us"], "us", "lower"
            ),
            Figure(f"the same and a wait, {place}", times["waited_us"], "us", "lower"),
        ]
    return listed


def child(environment: dict[str, str], side: int) -> dict[str, float]:
    one_core = {"OPENBLAS_NUM_THREADS": "1", SOFTGPU_THREADS: "1"}
    library = native_build().libraries / "libcublas.so.13"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.libraries", str(library), str(side)],
        env=os.environ | environment | one_core,
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


def products(library: str, side: int) -> dict[str, float]:
    """In the process that has the slice."""
    import numpy as np
    from cuda.bindings import driver

    from tests.libraries.on_device import Cublas, OnDevice, Value, pointer, random, start

    start()
    blas = Cublas(library)
    one, zero = Value(1, "float32"), Value(0, "float32")

    def product(n: int, a: OnDevice, b: OnDevice, c: OnDevice) -> None:
        given = (0, 0, n, n, n, one.pointer(), pointer(a), n, pointer(b), n, zero.pointer(), pointer(c), n)
        assert blas.status("cublasSgemm_v2", *given) == 0

    a, b = random("float32", side, side), random("float32", side, side)
    on = [OnDevice(array) for array in (a, b, np.zeros_like(a))]
    ratios = []
    for _ in range(TURNS):
        begun = perf_counter()
        a @ b
        between = perf_counter()
        product(side, *on)
        driver.cuCtxSynchronize()
        ratios.append((perf_counter() - between) / (between - begun))
    posted, waited = [], []
    for _ in range(TURNS):
        begun = perf_counter()
        for _ in range(100):
            product(SMALL, *on)
        posted.append((perf_counter() - begun) / 100)
        driver.cuCtxSynchronize()
        begun = perf_counter()
        for _ in range(20):
            product(SMALL, *on)
            driver.cuCtxSynchronize()
        waited.append((perf_counter() - begun) / 20)
    return {"ratio": median(ratios), "posted_us": median(posted) * 1e6, "waited_us": median(waited) * 1e6}


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[2].isdigit():
        print(json.dumps(products(sys.argv[1], int(sys.argv[2]))))
    else:
        main(measure, __doc__)
