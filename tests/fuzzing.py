"""Inputs of fuzzers: what a folder starts with, and what was found to reach code that nothing else reached.

The found ones are thousands of small files, kept in one archive, ``found.tar.xz``, beside the others.
CONTRIBUTING says how one is made anew.
"""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

FOUND = "found.tar.xz"


def inputs(folder: Path, unpacked: Path) -> list[Path]:
    """All inputs of ``folder``; its archive's are written below ``unpacked``."""
    starting = [path for path in folder.iterdir() if path.suffix != ".dict" and path.name != FOUND]
    if (folder / FOUND).exists():
        with tarfile.open(folder / FOUND) as archive:
            archive.extractall(unpacked, filter="data")
    return sorted([*starting, *(path for path in unpacked.rglob("*") if path.is_file())])


def replay(program: Path, chosen: list[Path], environment: dict[str, str] | None = None) -> None:
    """Run ``program``, a fuzzer with the main of ``fuzzing/replay.cc``, on inputs. Fails with its words."""
    done = subprocess.run(
        [program, *chosen], capture_output=True, text=True, errors="replace", timeout=500, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == f"{len(chosen)} inputs"
