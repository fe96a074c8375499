"""Which functions of NVIDIA's maths libraries a framework calls: ``audit.c`` notes them as programs run.

``python -m tests.frameworks.recorder`` runs the frameworks' programs of the tests on the software GPU, with
XLA's own choice of libraries, and writes ``calls_<framework>.txt`` beside this file: "LIBRARY FUNCTION" on
each line. Names, and not arguments: what a call is given is for tests/libraries.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
LOG_VARIABLE = "GPU_KERNELS_RECORDED_CALLS"
WITH_LIBRARIES = "--xla_gpu_experimental_disable_binary_libraries=false --xla_gpu_autotune_level=4"
"""XLA's flags as on an NVIDIA GPU; the user's come after ours."""
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "jax": ("jax_operations.py", "jax_training.py", "jax_refusals.py"),
    "tensorflow": ("tensorflow_operations.py", "tensorflow_refusals.py", "keras_training.py"),
}


def listed(framework: str) -> set[str]:
    """What is committed for the framework."""
    return set((HERE / f"calls_{framework}.txt").read_text().splitlines())


def imported(framework: str) -> set[str]:
    """What its wheel's libraries import, whether a program calls it or not."""
    lines = (HERE / f"imports_{framework}.txt").read_text().splitlines()
    return {line for line in lines if not line.startswith("#")}


@dataclass(frozen=True)
class Recorder:
    """Records into a file of ``folder``, which is there."""

    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "calls"

    def environment(self) -> dict[str, str]:
        """What a program needs beside its own environment."""
        audit = self.folder / "audit.so"
        if not audit.exists():
            source = HERE / "audit.c"
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(audit), str(source)], check=True)
        return {"LD_AUDIT": str(audit), LOG_VARIABLE: str(self.log), "XLA_FLAGS": WITH_LIBRARIES}

    def calls(self) -> set[str]:
        """What was called so far. A library's file has its major version, which says nothing here."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return {f"{library.partition('.so')[0]} {name}" for library, name in (line.split() for line in lines)}
