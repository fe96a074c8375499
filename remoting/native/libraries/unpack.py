"""Print the folder of a package that is unpacked, not installed: what lies in it is read when we are built.

``unpack.py PINNED FOLDER`` fetches the one that the requirements file PINNED names from the package index
into FOLDER, once. Called by CMake.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path


def _fetch(pinned: Path, folder: Path) -> Path:
    """pip checks the hash. For a source distribution it asks what builds one, which builds us too."""
    options = ["--no-deps", "--no-build-isolation", "--require-hashes", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, "-r", pinned, "-d", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"what {pinned.name} names cannot be fetched:\n{done.stderr}")
    return next(path for path in folder.iterdir() if path.suffix in (".gz", ".whl"))


def main(pinned: Path, folder: Path) -> None:
    match = re.search(r"^([a-z0-9]+)==([\d.]+) ", pinned.read_text(), re.MULTILINE)
    assert match is not None
    name = f"{match[1]}-{match[2]}"
    unpacked = folder / name
    if not unpacked.exists():
        archive = _fetch(pinned, folder / "fetched" / name)
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                wheel.extractall(unpacked)  # noqa: S202 - its hash is known
        else:
            with tarfile.open(archive) as sources:
                sources.extractall(folder, filter="data")
    print(unpacked)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
