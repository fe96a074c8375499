"""Calls functions of cuBLAS as programs do: ``cublas_results.py GROUP LIBRARY`` prints as JSON how far each
is from NumPy, by function."""

from __future__ import annotations

import json
import sys

from tests.libraries.levels import level1, level2, level3
from tests.libraries.on_device import Cublas, start
from tests.libraries.products import factorisations, mixed, products, types, wide

GROUPS = {
    each.__name__: each for each in (level1, level2, level3, products, types, factorisations, wide, mixed)
}


def main(group: str, library: str) -> None:
    start()
    worst: dict[str, float] = {}
    for name, difference in GROUPS[group](Cublas(library)):
        worst[name] = max(worst.get(name, 0.0), difference)
    print(json.dumps(worst))


if __name__ == "__main__":
    main(*sys.argv[1:])
