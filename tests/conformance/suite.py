"""The suites: where their files are, and in what order they are best run."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import dataclass, field
from pathlib import Path

LISTS = Path(__file__).parent / "lists"


@dataclass(frozen=True)
class Suite:
    """A test suite that an installed distribution ships."""

    name: str
    distribution: str
    root: Path
    folders: tuple[str, ...]
    counted: tuple[str, ...]
    """The folders of which 90 in 100 tests must pass."""
    needs: tuple[str, ...] = ()
    """Modules beyond the distribution's own that its tests import."""
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def version(self) -> str:
        return importlib.metadata.version(self.distribution)

    @property
    def expectations(self) -> Path:
        """The list of what is known to differ."""
        return LISTS / f"{self.name}.toml"

    @property
    def lacks(self) -> list[str]:
        """The modules without which no test of it can run."""
        return [module for module in self.needs if importlib.util.find_spec(module) is None]

    def files(self) -> list[Path]:
        return [path for folder in self.folders for path in sorted((self.root / folder).glob("test_*.py"))]


def numba() -> Suite | None:
    """numba-cuda's own tests, as its wheel ships them; None where it is not installed."""
    found = importlib.util.find_spec("numba_cuda")
    if found is None or found.origin is None:
        return None
    return Suite(
        name="numba",
        distribution="numba-cuda",
        root=Path(found.origin).parent / "numba" / "cuda" / "tests",
        folders=("cudadrv", "cudapy", "doc_examples", "nrt", "core"),
        counted=("cudadrv", "cudapy"),
        needs=("filecheck", "cffi"),
        environment={"NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0"},
    )
