"""Tests test the tree that they stand in.

The packages are found by what `pip install -e` left in the virtual environment, and that names one tree for
good. In a copy of the tree, with the environment copied or shared, every test would be green or red for the
other one's code.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

PACKAGES = ("gpu_kernels", "benchmarks")


def refusal(root: Path) -> str | None:
    """Why the tests of this tree cannot run, and what to do; None where each package is the tree's own."""
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        origin = None if spec is None or spec.origin is None else Path(spec.origin).resolve()
        if origin != (root / name / "__init__.py").resolve():
            return (
                f"These tests stand in {root}, but {name} is imported from {origin or 'nowhere'}, and that "
                f"is what they would test. {sys.prefix} was made for another tree. Give this one its own: "
                f"cd {root} && rm -rf .venv build/native && make test"
            )
    return None
