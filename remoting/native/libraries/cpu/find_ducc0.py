"""Print the folder of ducc0's C++ sources, which its source distribution has and its wheels have not.

``find_ducc0.py FOLDER`` fetches the one that ducc0.txt pins from the package index into FOLDER, once.
Called by CMake.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from pathlib import Path

_PINNED = Path(__file__).with_name("ducc0.txt")


def _fetch(folder: Path) -> None:
    """pip checks the hash. For a source distribution it asks what builds one, which builds us too."""
    options = ["--no-deps", "--no-binary=ducc0", "--no-build-isolation", "--require-hashes", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, "-r", _PINNED, "-d", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"ducc0's sources cannot be fetched:\n{done.stderr}")


def main(folder: str) -> None:
    match = re.match(r"ducc0==([\d.]+)", _PINNED.read_text())
    assert match is not None
    name = f"ducc0-{match[1]}"
    sources = Path(folder, name, "src")
    if not sources.exists():
        _fetch(Path(folder))
        with tarfile.open(Path(folder, name + ".tar.gz")) as archive:
            archive.extractall(folder, filter="data")
    print(sources)


if __name__ == "__main__":
    main(*sys.argv[1:])
