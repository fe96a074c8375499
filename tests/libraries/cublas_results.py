"""Calls functions of cuBLAS as programs do: ``cublas_results.py GROUP LIBRARY`` prints as JSON how far each
is from NumPy, by function."""

from __future__ import annotations

import json
import sys

from tests.libraries.levels import level1, level2, level3
from tests.libraries.on_device import Cublas, start, worst_of
from tests.libraries.products import factorisations, mixed, products, types, wide

GROUPS = {
    each.__name__: each for each in (level1, level2, level3, products, types, factorisations, wide, mixed)
}


def main(group: str, library: str) -> None:
    start()
    print(json.dumps(worst_of(GROUPS[group](Cublas(library)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
