"""What PyTorch costs on a software GPU: an operator and training steps on the CPU, straight and forwarded.

It needs PyTorch (``make frameworks``, or GPU_KERNELS_TORCH_PYTHON names a Python that has it), and prints
nothing without. One core for all three, so that neither side's threads count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.figures import Figure, main, median
from remoting.environment import without_gpu
from tests.conformance.places import PLACES
from tests.frameworks import installed

PROGRAM = Path(__file__).parent / "on_pytorch.py"
IMPORTS = 5
STEPS = {"cnn": 1.3, "transformer": 1.3}
"""Networks, and how many times the CPU's time a step may take straight."""
FORWARDED = 1.5
"""The same forwarded on one host."""
COUNTED = {"copied": ("copied_bytes", "bytes"), "waits for the worker": ("waits", "a step")}
"""What a step on one host does not do."""
OPERATOR_US = 15.0
IMPORT_S = 0.3


def measure(smallest: bool) -> list[Figure]:
    try:
        python = installed.pytorch()
    except installed.NotInstalled as error:
        print(error, file=sys.stderr)
        return []
    cpu = run(python, without_gpu(os.environ), "cpu", smallest)
    places = {}
    for place in ("straight", "forwarded"):
        with PLACES[place](1) as process, process() as environment:
            places[place] = run(python, environment, "cuda", smallest)
    listed = [Figure("small operator, CPU", cpu["operator_us"], "us", "lower")]
    for place, times in places.items():
        more = times["operator_us"] - cpu["operator_us"]
        listed.append(
            Figure(f"small operator, {place}, more than on the CPU", more, "us", "lower", OPERATOR_US)
        )
    for network, straight in STEPS.items():
        listed.append(Figure(f"{network} step, CPU", cpu[f"{network}_ms"], "ms", "lower"))
        for place, times in places.items():
            ratio = times[f"{network}_ms"] / cpu[f"{network}_ms"]
            aim = straight if place == "straight" else FORWARDED
            listed.append(Figure(f"{network} step, {place}", ratio, "times the CPU's", "lower", aim))
    for name, (key, unit) in COUNTED.items():
        listed.append(Figure(f"cnn step, forwarded, {name}", places["forwarded"][key], unit, "lower", 0))
    with PLACES["straight"](1) as process, process() as environment:
        added = import_added(python, environment, 1 if smallest else IMPORTS)
    return [*listed, Figure("added to import torch, processor time", added, "s", "lower", IMPORT_S)]


def run(python: str, environment: dict[str, str], device: str, smallest: bool) -> dict[str, float]:
    """The figures that the program prints."""
    done = subprocess.run(
        [python, str(PROGRAM), device, *(["--smallest"] if smallest else [])],
        env=environment | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=900,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def import_added(python: str, environment: dict[str, str], times: int) -> float:
    """Seconds of the processor's time; with and without in turn. PyTorch's look for extensions, which any
    extension costs, is in it.
    """

    def seconds(autoload: str) -> float:
        timed = "import time; t = time.process_time(); import torch; print(time.process_time() - t)"
        env = environment | {"TORCH_DEVICE_BACKEND_AUTOLOAD": autoload}
        return float(subprocess.run([python, "-c", timed], env=env, capture_output=True, check=True).stdout)

    pairs = [(seconds("1"), seconds("0")) for _ in range(times)]
    return median(with_us - without for with_us, without in pairs)


if __name__ == "__main__":
    main(measure, __doc__)
