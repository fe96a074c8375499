"""Environments that have a wheel and what its extras ask for, without this checkout.

What others distribute is not fetched again: the environment gets links to what is locked and installed here,
by what the wheel's own metadata asks for. The wheel is installed by pip, without the network.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def asked_for(wheel: zipfile.ZipFile, *extras: str) -> list[str]:
    """What the wheel's metadata asks for with these extras, and with those that they are made of."""
    folder = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    another = zipfile.ZipFile(str(wheel.filename))  # a Path adds names of folders to its own
    described = PathDistribution(zipfile.Path(another, folder.removesuffix("METADATA")))
    lines, left, seen = list[str](), ["", *extras], set[str]()
    while left:
        seen.add(extra := left.pop())
        for requirement in map(Requirement, described.requires or ()):
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
                continue
            if canonicalize_name(requirement.name) == canonicalize_name(described.metadata["Name"]):
                left += requirement.extras - seen
            else:
                lines.append(f"{requirement.name}[{','.join(requirement.extras)}]{requirement.specifier}")
    return lines


def brought(requirements: Iterable[str]) -> list[Distribution]:
    """What pip would install for these, of the distributions that are here. The lock has to name each of
    these; what only they ask for may be another machine's.
    """
    seen: dict[tuple[str, str], Distribution] = {}
    left = [*map(Requirement, requirements)]
    asked = {canonicalize_name(each.name) for each in left}
    while left:
        wanted = left.pop()
        name = canonicalize_name(wanted.name)
        for extra in ("", *wanted.extras):
            if (name, extra) in seen:
                continue
            try:
                seen[name, extra] = found = distribution(name)
            except PackageNotFoundError:
                if name in asked:
                    pytest.fail(f"the wheel asks for {name}, which is not locked")
                pytest.skip(f"{name} is not installed here")
            inner = map(Requirement, found.requires or ())
            left += [each for each in inner if each.marker is None or each.marker.evaluate({"extra": extra})]
    return [*{found.name: found for found in seen.values()}.values()]


def files(distributions: Iterable[Distribution]) -> Iterator[tuple[Path, Path]]:
    """Each file that they install in site-packages, and beside it in ``share`` and ``etc``: its place from
    there, and where it is.
    """
    for found in distributions:
        for file in found.files or ():
            place = Path(file)
            beside = place.parts[:4] in (("..", "..", "..", "share"), ("..", "..", "..", "etc"))
            if beside or ".." not in place.parts:
                yield place, Path(str(found.locate_file(file)))


def link(distributions: Iterable[Distribution], site: Path) -> None:
    for place, at in files(distributions):
        target = Path(os.path.normpath(site / place))
        if at.is_file() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(at)


class Environment:
    """A virtual environment with the wheel and these extras."""

    def __init__(self, folder: Path, wheel: Path, *extras: str) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self.python = folder / "bin" / "python"
        (site,) = folder.glob("lib/python3*/site-packages")
        self.site = site
        with zipfile.ZipFile(wheel) as archive:
            link(brought(asked_for(archive, *extras)), site)
        self.pip("install", "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel))

    def pip(self, *arguments: str) -> None:
        done = subprocess.run(
            [*PIP, "--python", self.python, *arguments], capture_output=True, text=True, cwd="/"
        )
        assert done.returncode == 0, done.stdout + done.stderr

    @property
    def command(self) -> Path:
        """``jupyter gpu``."""
        return self.folder / "bin" / "jupyter-gpu"
