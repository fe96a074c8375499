"""cuRAND's numbers: ``curand_results.py GROUP LIBRARY`` prints as JSON what was found of them."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.libraries.curand_known import cases, sample
from tests.libraries.generators import Curand
from tests.libraries.on_device import start

group, path = sys.argv[1:]
start()
curand = Curand(path)
PSEUDO = ("xorwow", "mrg32k3a", "philox", "mt19937")
QUASI = ("sobol32", "sobol64")
N = 1 << 18


def known() -> dict[str, float]:
    """The largest difference from NVIDIA's numbers, on the device and on the host."""
    wanted = json.loads(Path(__file__).with_name("curand_known.json").read_text())["samples"]
    worst: dict[str, float] = {}
    for on_host in (False, True):
        for (kind, settings, result), numbers in zip(cases(), wanted, strict=True):
            found = np.array(sample(curand, kind, settings, result, on_host))
            name = f"{kind} {result or 'bits'}"
            far = np.abs(found - np.array(numbers)) / np.maximum(1, np.abs(numbers))
            worst[name] = float(np.maximum(worst.get(name, 0), far.max()))
    return worst


def normal(x: np.ndarray) -> np.ndarray:
    return np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in x])


# Each as its distribution function, and what shapes it.
DISTRIBUTIONS: dict[str, tuple[tuple[float, ...], Callable[[np.ndarray], np.ndarray]]] = {
    "Uniform": ((), lambda x: x),
    "UniformDouble": ((), lambda x: x),
    "Normal": ((2, 3), lambda x: normal((x - 2) / 3)),
    "NormalDouble": ((-1, 0.5), lambda x: normal((x + 1) / 0.5)),
    "LogNormal": ((0, 0.5), lambda x: normal(np.log(x) / 0.5)),
    "LogNormalDouble": ((1, 2), lambda x: normal((np.log(x) - 1) / 2)),
}


def distributions() -> dict[str, float]:
    """Kolmogorov and Smirnov's distance times the root of the count: above 1.95 one time in a thousand."""
    found = {}
    for kind in (*PSEUDO, *QUASI):
        for result, (shape, function) in DISTRIBUTIONS.items():
            seed = None if kind in QUASI else 20
            numbers = curand.generator(kind, seed=seed, offset=1 if kind in QUASI else None).numbers(
                result, N, *shape
            )
            steps = function(np.sort(numbers.astype("float64"))[:: N // 4096])
            places = np.arange(4096) * (N // 4096) / N
            found[f"{kind} {result}"] = float(np.abs(steps - places).max() * math.sqrt(N))
    return found


def bits() -> dict[str, float]:
    """Each bit is set half of the time, and the next number knows nothing of it: the worst of 32, as a
    multiple of the standard deviation."""
    found = {}
    for kind in PSEUDO:
        words = curand.generator(kind, seed=21).numbers("", N)
        each = np.array([(words >> np.uint32(bit)) & 1 for bit in range(32)], "float64") - 0.5
        found[f"{kind} half"] = float(np.abs(each.mean(axis=1)).max() * 2 * math.sqrt(N))
        for apart in (1, 4096, 65536):
            together = (each[:, :-apart] * each[:, apart:]).mean(axis=1)
            found[f"{kind} {apart} apart"] = float(np.abs(together).max() * 4 * math.sqrt(N - apart))
    return found


def poisson() -> dict[str, float]:
    """Chi-square of the counts, as a multiple of its standard deviation; or of the mean."""
    found = {}
    for kind in (*PSEUDO, *QUASI):
        for rate in (0.3, 10, 1000):
            seed = None if kind in QUASI else 22
            numbers = curand.generator(kind, seed=seed).numbers("Poisson", N, rate).astype("int64")
            first, last = max(0, int(rate - 3 * math.sqrt(rate))), int(rate + 3 * math.sqrt(rate) + 2)
            logs = [k * math.log(rate) - rate - math.lgamma(k + 1) for k in range(first, last)]
            wanted = N * np.exp(logs)
            counted = np.bincount(numbers, minlength=last)[first:last]
            classes = len(wanted)
            chi = float(((counted - wanted) ** 2 / wanted).sum())
            found[f"{kind} {rate}"] = (chi - classes) / math.sqrt(2 * classes)
    numbers = curand.generator("philox", seed=3).numbers("Poisson", N, 400_000)
    found["philox 400000"] = float(abs(numbers.mean() - 400_000) / math.sqrt(400_000) * math.sqrt(N))
    return found


def pairs() -> dict[str, float]:
    """Points of neighbouring dimensions fill 32 x 32 fields alike: the worst field's surplus, in points."""
    found = {}
    for kind in QUASI:
        points = curand.generator(kind, dimensions=8).numbers("UniformDouble", 8 << 14).reshape(8, 1 << 14)
        fields = (points * 32).astype("int64").clip(0, 31)
        for a in range(7):
            counted = np.bincount(fields[a] * 32 + fields[a + 1], minlength=1024)
            found[f"{kind} {a}"] = float(np.abs(counted - (1 << 14) // 1024).max())
    return found


def seeded() -> dict[str, float]:
    """Of the ordering by seeds: how many of the first row's numbers are alike."""
    row = curand.generator("xorwow", seed=5, ordering="seeded").numbers("", 8192)
    again = curand.generator("xorwow", seed=5, ordering="seeded", offset=4096).numbers("", 4096)
    return {"alike": 8192 - len(np.unique(row)), "behind": int((row[4096:] != again).sum())}


GROUPS = {each.__name__: each for each in (known, distributions, bits, poisson, pairs, seeded)}
print(json.dumps(GROUPS[group]()))
