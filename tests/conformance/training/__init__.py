"""Trains networks of each framework in a place of the suites: whether they learn the same, and how fast."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.places import PLACES
from tests.frameworks import installed

PROGRAMS = {"pytorch": "on_pytorch.py", "tensorflow": "on_keras.py", "jax": "on_jax.py"}
ENDS_WITHIN_S = 3600
CLOSE = 0.01
"""How far two runs' losses may be apart, relatively: libraries on a GPU add in any order."""


@dataclass(frozen=True)
class Training:
    """One network's: its losses by step, and images (or sequences) trained a second. ``failure`` is why there
    is none.
    """

    network: str
    losses: tuple[float, ...] = ()
    a_second: float = 0.0
    failure: str = ""

    def text(self) -> str:
        if self.failure:
            return self.failure.replace("|", "\\|")
        return f"{self.a_second:.4g} a second, loss {self.losses[0]:.4f} to {self.losses[-1]:.4f}"

    def is_as(self, other: Training) -> bool:
        """Whether it ended as ``other``: with close losses, or both with none."""
        if self.failure or other.failure:
            return bool(self.failure) == bool(other.failure)
        pairs = zip(self.losses, other.losses, strict=True)
        return all(abs(one - another) <= CLOSE * max(1.0, abs(another)) for one, another in pairs)


def python_with(framework: str) -> str:
    """Raises ``NotInstalled``."""
    if framework == "pytorch":
        return installed.pytorch()
    found = f"from importlib.util import find_spec; assert find_spec({framework!r})"
    return installed.python_with(framework, f"GPU_KERNELS_{framework.upper()}_PYTHON", found)


def train_in(
    places: tuple[str, str], framework: str, *, smallest: bool
) -> tuple[list[Training], list[Training]]:
    """The networks of ``framework`` in each of two places of ``PLACES``. Raises ``NotInstalled``."""
    python = python_with(framework)
    trained = []
    for place in places:
        with PLACES[place](1) as process, process() as environment:
            trained.append(_run(python, PROGRAMS[framework], environment, smallest))
    return trained[0], trained[1]


def _run(python: str, program: str, environment: Mapping[str, str], smallest: bool) -> list[Training]:
    command = [python, str(Path(__file__).parent / program), *(["--smallest"] if smallest else [])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=ENDS_WITHIN_S)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"network"')]
    trained = [_training(line) for line in lines]
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
        trained.append(Training(program, failure=f"exit {done.returncode}: {said[-1][-300:]}"))
    return trained


def _training(line: dict[str, Any]) -> Training:
    return Training(line["network"], tuple(line["losses"]), line["a_second"], line["failure"])


def rows(straight: list[Training], forwarded: list[Training]) -> tuple[list[str], int]:
    """A row of a table for each network, and how many did not end forwarded as they did straight."""
    here = {each.network: each for each in forwarded}
    there = {each.network: each for each in straight}
    listed, different = [], 0
    for network in [*there, *(name for name in here if name not in there)]:
        missing = Training(network, failure="not run")
        one, other = there.get(network, missing), here.get(network, missing)
        different += not other.is_as(one)
        listed.append(f"| {network} | {one.text()} | {other.text()} |")
    return listed, different
