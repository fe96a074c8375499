"""Writes ``calls_<framework>.txt`` anew, of each framework that is installed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.conformance.places import PLACES
from tests.frameworks.installed import NotInstalled, python_with
from tests.frameworks.recorder import HERE, PROGRAMS, Recorder

WITHIN_S = 1200
FOLDER = HERE.parent / "xla" / "programs"


def record(framework: str) -> set[str]:
    """Raises ``NotInstalled``."""
    python = python_with(framework, f"GPU_KERNELS_{framework.upper()}_PYTHON", f"import {framework}")
    with tempfile.TemporaryDirectory() as folder, PLACES["straight"](1) as process, process() as env:
        recorder = Recorder(Path(folder))
        for name in PROGRAMS[framework]:
            print(f"{framework}: {name}", flush=True)
            # What a program says and how it ends is for other tests.
            subprocess.run(
                [python, str(FOLDER / name)],
                env={**env, **recorder.environment()},
                capture_output=True,
                timeout=WITHIN_S,
            )
        return recorder.calls()


def main() -> None:
    for framework in PROGRAMS:
        try:
            calls = record(framework)
        except NotInstalled as error:
            print(error, file=sys.stderr)
            continue
        (HERE / f"calls_{framework}.txt").write_text("".join(f"{call}\n" for call in sorted(calls)))
        print(f"{framework}: {len(calls)} functions")


if __name__ == "__main__":
    main()
