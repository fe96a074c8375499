"""Adds to ``calls_<framework>.txt``: of each framework that is here, or of one that runs what is named."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.places import PLACES
from tests.frameworks.installed import NotInstalled, python_with
from tests.frameworks.recorder import HERE, MODULES, PROGRAMS, Recorder, listed

WITHIN_S = 3600


def record(framework: str, runs: Sequence[Sequence[str]]) -> set[str]:
    """What each run of the framework's Python calls. Raises ``NotInstalled``."""
    proof = f"import {MODULES.get(framework, framework)}"
    python = python_with(framework, f"GPU_KERNELS_{framework.upper()}_PYTHON", proof)
    with tempfile.TemporaryDirectory() as folder, PLACES["straight"](1) as process, process() as env:
        recorder = Recorder(Path(folder), framework)
        for arguments in runs:
            print(framework, *arguments, flush=True)
            # What a program says and how it ends is for other tests.
            subprocess.run(
                [python, *arguments],
                env={**env, **recorder.environment()},
                capture_output=True,
                timeout=WITHIN_S,
            )
        return recorder.calls()


def main() -> None:
    only = sys.argv[1:2]
    for framework in only or PROGRAMS:
        runs = [sys.argv[2:]] if sys.argv[2:] else [[str(program)] for program in PROGRAMS[framework]]
        try:
            calls = record(framework, runs)
        except NotInstalled as error:
            print(error, file=sys.stderr)
            continue
        every = listed(framework) | calls
        (HERE / f"calls_{framework}.txt").write_text("".join(f"{call}\n" for call in sorted(every)))
        print(f"{framework}: {len(calls)} functions, {len(every)} on its list")


if __name__ == "__main__":
    main()
