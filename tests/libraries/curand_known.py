"""The numbers of NVIDIA's own cuRAND, whose generators of the host need no GPU.

``python -m tests.libraries.curand_known LIBRARY > tests/libraries/curand_known.json`` asks the
libcurand.so.10 of NVIDIA's wheel; which release it was stands in the file.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Iterator

import numpy as np

from tests.libraries.generators import Curand

COUNT = 100_000
# The first, some behind the end of a row of each generator's lanes, and the last ones.
PLACES = (0, 1, 2, 3, 4, 5, 4095, 4096, 8191, 8192, 20_001, 65_535, 81_919, 81_920, 81_921, 99_998, 99_999)
SHAPES = {
    "Normal": (0, 1),
    "NormalDouble": (-3, 2),
    "LogNormal": (0, 0.5),
    "LogNormalDouble": (1, 0.25),
}
PSEUDO = ("", "Uniform", "UniformDouble", *SHAPES)
DIMENSIONS = (1, 2, 1000, 20_000)


def cases() -> Iterator[tuple[str, dict[str, int | str], str]]:
    """Kinds, settings and results that are NVIDIA's numbers."""
    for kind in ("xorwow", "mrg32k3a", "philox"):
        for ordering in ("default", "legacy"):
            for seed in (0, 5, 0x123456789ABCDEF):
                for result in PSEUDO:
                    yield kind, {"ordering": ordering, "seed": seed}, result
        for offset in (7, 4096, 1 << 40):
            yield kind, {"seed": 5, "offset": offset}, ""
            yield kind, {"seed": 5, "offset": offset}, "Uniform"
    for dimensions in DIMENSIONS:
        yield "sobol32", {"dimensions": dimensions, "offset": 0}, ""
        yield "sobol64", {"dimensions": dimensions, "offset": 0}, "LongLong"
    for kind in ("sobol32", "sobol64"):
        for result in ("Uniform", "UniformDouble", *SHAPES):
            yield kind, {"dimensions": 4, "offset": 99}, result


def sample(
    curand: Curand, kind: str, settings: dict[str, int | str], result: str, on_host: bool
) -> list[float]:
    numbers = curand.generator(kind, on_host=on_host, **settings).numbers(
        result, COUNT, *SHAPES.get(result, ())
    )
    return np.take(numbers, PLACES).tolist()


def main(path: str) -> None:
    curand, version = Curand(path), ctypes.c_int()
    curand("GetVersion", ctypes.byref(version))
    samples = [sample(curand, *case, on_host=True) for case in cases()]
    print(json.dumps({"version": version.value, "samples": samples}, separators=(",", ":")))


if __name__ == "__main__":
    main(sys.argv[1])
