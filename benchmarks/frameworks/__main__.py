"""What frameworks cost on a software GPU: training steps of PyTorch, Keras and JAX on the CPU, straight and
forwarded; of PyTorch an operator, its import and the start of a kernel too.

It needs ``make frameworks`` (or GPU_KERNELS_TORCH_PYTHON and its like name Pythons that have them), and says
what it leaves out without. PyTorch has one core in all three places, so that neither side's threads count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.figures import Figure, main, median
from benchmarks.frameworks.kernel import seconds_to_import
from gpu_kernels.remoting.environment import without_gpu
from tests.conformance.places import PLACES
from tests.frameworks import installed

PROGRAMS = Path(__file__).parent
NETWORKS = Path(__file__).parents[2] / "tests" / "frameworks" / "pytorch" / "programs"
"""Where ``networks`` is, which the tests train too."""
ROUNDS = 3
TIMES = 5
"""Imports, and starts of kernels, with and without us in turn."""
PLACES_OF_A_SLICE = ("straight", "forwarded")
STEPS = {"cnn": 1.3, "transformer": 1.3}
"""Networks, and how many times the CPU's time a step may take straight."""
FORWARDED = 1.5
"""The same forwarded on one host."""
IMAGES = ("resnet", "inception")
COUNTED = {"copied": ("copied_bytes", "bytes"), "waits for the worker": ("waits", "a step")}
"""What a step on one host does not do."""
OPERATOR_US = 15.0
IMPORT_S = 0.3
XLA = {"tensorflow": ("Keras step", "on_keras.py"), "jax": ("JAX step", "on_jax.py")}

Places = Mapping[str, Mapping[str, float]]
"""What a program printed, by where it ran."""


def measure(smallest: bool) -> list[Figure]:
    times = 1 if smallest else TIMES
    parts = [
        lambda: of_pytorch(smallest, installed.pytorch()),
        lambda: of_starting(times, installed.pytorch()),
        *(lambda name=name: of_xla(smallest, name) for name in XLA),
    ]
    listed: list[Figure] = []
    for part in parts:
        try:
            listed += part()
        except installed.NotInstalled as error:
            print(error, file=sys.stderr)
    return listed


def of_pytorch(smallest: bool, python: str) -> list[Figure]:
    """An operator, training steps, and what a step copies and waits for."""
    cpu, places = everywhere(python, "on_pytorch.py", smallest)
    listed = [Figure("small operator, CPU", cpu["operator_us"], "us", "lower")]
    for place, times in places.items():
        more = times["operator_us"] - cpu["operator_us"]
        listed.append(
            Figure(f"small operator, {place}, more than on the CPU", more, "us", "lower", OPERATOR_US)
        )
    for network, straight in STEPS.items():
        listed += of_a_step(f"{network} step", f"{network}_ms", cpu, places, (straight, FORWARDED))
    for name, (key, unit) in COUNTED.items():
        listed.append(Figure(f"cnn step, forwarded, {name}", places["forwarded"][key], unit, "lower", 0))
    for network in IMAGES:
        for place, times in {"CPU": cpu, **places}.items():
            trained = times[f"{network}_images_a_second"]
            listed.append(Figure(f"{network}-like, {place}, trained", trained, "images/s", "higher"))
    return listed


def of_starting(times: int, python: str) -> list[Figure]:
    """What is added to the import of PyTorch, and to a kernel's start with it."""
    with PLACES["straight"](1) as process, process() as environment:
        added = import_added(python, environment, times)
    with PLACES["forwarded"](1) as process, process() as environment:
        pairs = [
            [seconds_to_import("torch", python, env) for env in (environment, without_gpu(os.environ))]
            for _ in range(times)
        ]
    ratio = median(sliced / plain for sliced, plain in pairs)
    return [
        Figure("added to import torch, processor time", added, "s", "lower", IMPORT_S),
        Figure("kernel that imports torch, without a slice", median(pair[1] for pair in pairs), "s", "lower"),
        Figure("kernel that imports torch, slice over none", ratio, "ratio", "lower"),
    ]


def of_xla(smallest: bool, framework: str) -> list[Figure]:
    """A training step of Keras or JAX."""
    name, program = XLA[framework]
    found = f"from importlib.util import find_spec; assert find_spec({framework!r})"
    python = installed.python_with(framework, f"GPU_KERNELS_{framework.upper()}_PYTHON", found)
    cpu, places = everywhere(python, program, smallest)
    return of_a_step(name, "step_ms", cpu, places, (None, None))


def of_a_step(
    name: str, key: str, cpu: Mapping[str, float], places: Places, aims: tuple[float | None, float | None]
) -> list[Figure]:
    listed = [Figure(f"{name}, CPU", cpu[key], "ms", "lower")]
    for (place, times), aim in zip(places.items(), aims, strict=True):
        listed.append(Figure(f"{name}, {place}", times[key] / cpu[key], "times the CPU's", "lower", aim))
    return listed


def everywhere(python: str, program: str, smallest: bool) -> tuple[dict[str, float], Places]:
    """What a program prints on the CPU, and in each place of a slice: the medians of some rounds in turn,
    since what else the machine does changes meanwhile.
    """
    rounds: dict[str, list[dict[str, float]]] = {"CPU": [], **{place: [] for place in PLACES_OF_A_SLICE}}
    plain = without_gpu(os.environ) | {"JAX_PLATFORMS": "cpu"}
    for _ in range(1 if smallest else ROUNDS):
        rounds["CPU"].append(run(python, program, plain, "cpu", smallest))
        for place in PLACES_OF_A_SLICE:
            with PLACES[place](1) as process, process() as environment:
                rounds[place].append(run(python, program, environment, "cuda", smallest))
    medians = {
        place: {key: median(each[key] for each in printed) for key in printed[0]}
        for place, printed in rounds.items()
    }
    return medians.pop("CPU"), medians


def run(
    python: str, program: str, environment: Mapping[str, str], device: str, smallest: bool
) -> dict[str, float]:
    """The figures that the program prints in its last line."""
    path = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), str(NETWORKS)]))
    done = subprocess.run(
        [python, str(PROGRAMS / program), device, *(["--smallest"] if smallest else [])],
        env={**environment, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=900,
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
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
