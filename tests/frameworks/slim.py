"""Environments that have some of a framework's packages and none of the others.

Their files are links to those of ``make frameworks``: nothing is downloaded, and next to nothing written.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.native_build import ROOT

PACKAGES = "import site; print(site.getsitepackages()[0])"
NAMES = """
import importlib.metadata
for name in sorted({each.metadata["Name"] for each in importlib.metadata.distributions()}):
    print(name)
"""
LINKS = """
import importlib.metadata, os, shutil, sys
folder, *names = sys.argv[1:]
for name in names:
    for file in importlib.metadata.distribution(name).files:
        target = os.path.join(folder, str(file))
        # What is there is another's file under a second name, and must not be written to.
        if str(file).startswith("..") or not os.path.exists(file.locate()) or os.path.lexists(target):
            continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        try:
            os.link(file.locate(), target)
        except OSError:
            shutil.copyfile(file.locate(), target)
"""


def packages_of(python: str) -> list[str]:
    """What is installed there, by the names of the distributions."""
    # Isolated: what a PYTHONPATH or the current folder adds is not installed there.
    done = subprocess.run([python, "-I", "-c", NAMES], check=True, capture_output=True, text=True)
    return done.stdout.split()


@contextmanager
def environment_of(python: str, names: Iterable[str]) -> Iterator[str]:
    """The Python of an environment with these packages of ``python``'s. ``link`` adds others'."""
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="slim-") as folder:
        subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
        made = str(Path(folder) / "bin" / "python")
        link(python, names, made)
        yield made


def link(python: str, names: Iterable[str], made: str) -> None:
    """Put packages of ``python``'s into the environment of ``made``; files that it has stay."""
    subprocess.run([python, "-c", LINKS, site_of(made), *names], check=True)


def site_of(python: str) -> str:
    """Where its packages lie."""
    return subprocess.run([python, "-c", PACKAGES], check=True, capture_output=True, text=True).stdout.strip()
