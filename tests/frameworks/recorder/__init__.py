"""Which functions of NVIDIA's maths libraries a framework calls: ``audit.c`` notes them as programs run.

``python -m tests.frameworks.recorder`` runs programs of each framework on the software GPU: our tests', with
XLA's own choice of libraries; of PyTorch its databases of operators and modules, on its own kernels, which
do nothing there. ``… jax -m pytest FOLDER/tests/linalg_test.py`` behind it runs that with JAX's Python. Calls
are added to ``calls_<framework>.txt`` beside this file: "LIBRARY FUNCTION" on each line. Names, and not
arguments: what a call is given is for tests/libraries.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
RECORD = struct.Struct("B127s")
"""Of ``audit.c``."""
LOG_VARIABLE = "GPU_KERNELS_RECORDED_CALLS"
WITH_LIBRARIES = "--xla_gpu_experimental_disable_binary_libraries=false --xla_gpu_autotune_level=4"
"""XLA's flags as on an NVIDIA GPU; the user's come after ours."""
ON_ITS_OWN_KERNELS = {"GPU_KERNELS_PYTORCH": "0", "GPU_KERNELS_RECORDED_WITHOUT_KERNELS": "1"}
OURS = HERE.parent / "xla" / "programs"
PROGRAMS: Mapping[str, tuple[Path, ...]] = {
    "jax": (
        *(OURS / f"jax_{name}.py" for name in ("operations", "linear_algebra")),
        *(OURS / f"jax_{name}.py" for name in ("training", "refusals")),
    ),
    "tensorflow": (
        *(OURS / f"tensorflow_{name}.py" for name in ("operations", "linear_algebra")),
        OURS / "keras_training.py",
    ),
    "pytorch": (HERE / "pytorch_operators.py",),
}
MODULES: Mapping[str, str] = {"pytorch": "torch"}
"""By which a framework is imported, where that is another name."""


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
    framework: str

    @property
    def log(self) -> Path:
        return self.folder / "calls"

    def environment(self) -> dict[str, str]:
        """What a program needs beside its own environment."""
        audit = self.folder / "audit.so"
        if not audit.exists():
            source = HERE / "audit.c"
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(audit), str(source)], check=True)
        recorded = {"LD_AUDIT": str(audit), LOG_VARIABLE: str(self.log)}
        return recorded | (
            ON_ITS_OWN_KERNELS if self.framework == "pytorch" else {"XLA_FLAGS": WITH_LIBRARIES}
        )

    def calls(self) -> set[str]:
        """What was called so far. A library's file has its major version, which says nothing here."""
        found = set()
        for log in self.folder.glob(f"{self.log.name}.*"):
            for is_called, name in RECORD.iter_unpack(log.read_bytes()):
                if is_called:
                    library, function = name.rstrip(b"\0").decode().split()
                    found.add(f"{library.partition('.so')[0]} {function}")
        return found
