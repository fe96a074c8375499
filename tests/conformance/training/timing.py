"""What the programs of this folder share: a network is trained for some steps, timed, and told in a line."""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Callable

SMALLEST = "--smallest" in sys.argv
STEPS = 3 if SMALLEST else 60
UNTIMED = 1 if SMALLEST else 10
"""The first steps compile, choose and allocate."""


def train(network: str, batch: int, prepare: Callable[[], Callable[[], float]]) -> None:
    """``prepare`` makes what does one step and gives its loss. What it raises is the network's failure, and
    the next one may still train.
    """
    said: dict[str, object] = {"network": network, "losses": [], "a_second": 0.0, "failure": ""}
    try:
        step = prepare()
        losses, took = [], []
        for _ in range(STEPS):
            start = time.perf_counter()
            losses.append(step())
            took.append(time.perf_counter() - start)
        assert all(map(math.isfinite, losses)), f"a loss is not a number: {losses}"
        said |= {"losses": losses, "a_second": batch / statistics.median(took[UNTIMED:])}
    except Exception as error:
        text = str(error).strip().splitlines() or [""]
        said["failure"] = f"{type(error).__name__}: {text[0][:300]}"
    print(json.dumps(said), flush=True)
