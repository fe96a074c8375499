"""Writes kernel specs where Jupyter looks for them, and takes back what it wrote.

A spec's name is made of its size alone (``python3-gpu-0.02-v100``), since notebooks remember it: the same
notebook opens in every course and on every server. Where its Python is an environment of its own, the name
says that too (``python3-pytorch-gpu-0.02-v100``). Every spec that this module writes carries a mark in its
``metadata``; a folder without the mark is somebody else's and is neither replaced nor removed.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, Literal

from jupyter_core.paths import SYSTEM_JUPYTER_PATH, jupyter_data_dir

from gpu_kernels import units
from gpu_kernels.kernelspecs.logo import share_path

DEFAULT_SIZES = ("0.02 V100", "0.1 V100", "1 V100")
PLAIN = "python3"
LONGEST_ENVIRONMENT = 40
MARK = "gpu_kernels"
TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class SpecOnDisk:
    """One kernel spec. ``size`` is None for the plain one; ``state`` says what the last call did with it:
    ``kept`` means that a spec of that name, which is not ours, was there and was left alone."""

    name: str
    display_name: str
    size: str | None
    folder: Path
    state: Literal["installed", "removed", "kept", "present"]


def spec_name(size: str, environment: str = "") -> str:
    """The kernel spec's name for a size: ``1/20 V100`` is ``python3-gpu-0.05-v100``, with ``PyTorch`` it is
    ``python3-pytorch-gpu-0.05-v100``.

    Raises ``InvalidSize`` for a text that is no size.
    """
    return f"{plain_name(environment)}-gpu-{_words(str(units.parse_size(size)).replace('/', '-of-'))}"


def plain_name(environment: str = "") -> str:
    """The name of the kernel spec without a GPU. Raises ``ValueError`` for what names no environment."""
    if not environment:
        return PLAIN
    if (
        not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ,.+_-]*", environment)
        or len(environment) > LONGEST_ENVIRONMENT
    ):
        raise ValueError(
            f"{environment!r} names no environment: letters, digits, spaces and ',.+_-' do, "
            f"{LONGEST_ENVIRONMENT} at most, such as 'PyTorch' or 'Keras and JAX'."
        )
    return f"{PLAIN}-{_words(environment)}"


def _words(text: str) -> str:
    return re.sub(r"[^a-z0-9._]+", "-", text.lower()).strip("-")


def kernels_folder(*, user: bool = False, sys_prefix: bool = False, prefix: str | Path | None = None) -> Path:
    """Where specs go: the user's data folder, this Python's prefix, another prefix, or the system's."""
    if user + sys_prefix + (prefix is not None) > 1:
        raise ValueError("Choose one of user, sys_prefix and prefix.")
    if user:
        return Path(jupyter_data_dir()) / "kernels"
    if sys_prefix or prefix is not None:
        return Path(prefix if prefix is not None else sys.prefix) / "share" / "jupyter" / "kernels"
    return Path(SYSTEM_JUPYTER_PATH[0]) / "kernels"


def install(
    *,
    user: bool = False,
    sys_prefix: bool = False,
    prefix: str | Path | None = None,
    sizes: Sequence[str] = DEFAULT_SIZES,
    plain: bool = True,
    python: str = sys.executable,
    environment: str = "",
) -> list[SpecOnDisk]:
    """Install a spec for each of ``sizes`` and, with ``plain``, one without a GPU. Again is harmless.

    ``python`` runs the kernels; it needs ``ipykernel`` and this package. ``environment`` is what students
    call it: ``PyTorch`` makes "Python 3 with PyTorch (0.02 V100)". Raises for a malformed size or environment
    before anything is written, and ``OSError`` where the folder cannot be written.
    """
    wanted: dict[str, str | None] = {plain_name(environment): None} if plain else {}
    for size in sizes:
        exact = str(units.parse_size(size))
        name = spec_name(exact, environment)
        other = wanted.setdefault(name, exact)
        if other != exact:
            raise ValueError(f"The sizes {other!r} and {exact!r} would both be named {name}.")
    folder = kernels_folder(user=user, sys_prefix=sys_prefix, prefix=prefix)
    folder.mkdir(parents=True, exist_ok=True)
    language = f"Python 3 with {environment}" if environment else "Python 3"
    return [_install_one(folder / name, size, python, language) for name, size in wanted.items()]


def installed(
    *, user: bool = False, sys_prefix: bool = False, prefix: str | Path | None = None
) -> list[SpecOnDisk]:
    """The specs there that this module wrote."""
    folder = kernels_folder(user=user, sys_prefix=sys_prefix, prefix=prefix)
    found = (_read(path) for path in sorted(folder.glob("*/kernel.json")))
    return [spec for spec in found if spec is not None and spec.state == "present"]


def remove(
    names: Iterable[str] | None = None,
    *,
    user: bool = False,
    sys_prefix: bool = False,
    prefix: str | Path | None = None,
) -> list[SpecOnDisk]:
    """Remove the named specs, or all that this module wrote there.

    A name that is not ours raises ``ValueError`` before anything is removed.
    """
    ours = {spec.name: spec for spec in installed(user=user, sys_prefix=sys_prefix, prefix=prefix)}
    chosen = list(ours) if names is None else list(names)
    if unknown := [name for name in chosen if name not in ours]:
        there = ", ".join(ours) or "none"
        raise ValueError(f"Not installed by gpu-kernels: {', '.join(unknown)}. Installed there: {there}.")
    for name in chosen:
        shutil.rmtree(ours[name].folder)
    return [_with_state(ours[name], "removed") for name in chosen]


def _install_one(target: Path, size: str | None, python: str, language: str) -> SpecOnDisk:
    there = _read(target / "kernel.json")
    if target.exists() and (there is None or there.state == "kept"):
        return there or SpecOnDisk(target.name, "(unreadable)", None, target, "kept")
    template = TEMPLATES / ("plain" if size is None else "gpu")
    display_name = language if size is None else f"{language} ({size})"
    spec = _fill(
        json.loads((template / "kernel.json").read_text()),
        {"python": python, "display_name": display_name, "size": size or ""},
    )
    with tempfile.TemporaryDirectory(prefix=".gpu-kernels-", dir=target.parent) as scratch:
        # A server may list specs at any moment: it sees the old folder or the new one, never half of one.
        fresh = Path(scratch) / "new"
        shutil.copytree(template, fresh)
        (fresh / "kernel.json").write_text(json.dumps(spec, indent=2) + "\n")
        if size is not None:
            logo = fresh / "logo-svg.svg"
            logo.write_text(_fill(logo.read_text(), {"share": share_path(units.parse_size(size))}))
        if target.exists():
            target.rename(Path(scratch) / "old")
        fresh.rename(target)
    return SpecOnDisk(target.name, display_name, size, target, "installed")


def _fill(value: Any, words: dict[str, str]) -> Any:
    """``value`` with ``$word`` replaced in every text of it; ``{connection_file}`` is left to Jupyter."""
    if isinstance(value, str):
        return Template(value).safe_substitute(words)
    if isinstance(value, list):
        return [_fill(item, words) for item in value]
    if isinstance(value, dict):
        return {key: _fill(item, words) for key, item in value.items()}
    return value


def _read(path: Path) -> SpecOnDisk | None:
    """What a kernel.json says, as ``present`` if ours, ``kept`` if not; None if it is no spec."""
    try:
        spec = json.loads(path.read_text())
        metadata = spec.get("metadata") or {}
        ours = bool(metadata.get(MARK, {}).get("installed"))
        size = metadata.get("kernel_provisioner", {}).get("config", {}).get("size")
        display_name = str(spec["display_name"])
    except (OSError, ValueError, KeyError, AttributeError):
        return None
    return SpecOnDisk(path.parent.name, display_name, size, path.parent, "present" if ours else "kept")


def _with_state(spec: SpecOnDisk, state: Literal["removed"]) -> SpecOnDisk:
    return SpecOnDisk(spec.name, spec.display_name, spec.size, spec.folder, state)
