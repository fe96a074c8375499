"""The made parts of docs/reference/configuration.md, from the settings' own definitions: ``python -m
gpu_kernels.hub_config.reference PAGE`` writes them anew. A test fails while the page differs, and for a
setting without help.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from traitlets import Bool, Dict, Enum, Float, HasTraits, Int, List, TraitType, Unicode, Union
from traitlets.config import Application

from gpu_kernels.hub_config.lab.settings import Settings
from gpu_kernels.kernelspecs.installer import TEMPLATES
from gpu_kernels.markdown import cell
from gpu_kernels.vocabulary.variables import GROUPS, Group

CLASSES = (
    "gpu_kernels.pool.app:PoolController",
    "gpu_kernels.remoting.agent.app:AgentApp",
    "gpu_kernels.spawner:GPULabMixin",
    "gpu_kernels.hub_config.pages.app:LabPages",
    "gpu_kernels.provisioner:GPUSliceProvisioner",
    "gpu_kernels.hub_config.lab.authenticator:DemoAuthenticator",
)
"""Whose settings there are. Named, not imported: nothing but the controller imports its own."""
MADE = re.compile(r"<!-- made: (?P<name>\S+) -->\n.*?<!-- end of (?P=name) -->", re.S)


def with_made_parts(page: str) -> str:
    """The page with its made parts as they should be. Raises ``ValueError`` where a part's marks lack."""
    parts = made_parts()
    marked = [mark["name"] for mark in MADE.finditer(page)]
    if sorted(marked) != sorted(parts):
        raise ValueError(f"the page must mark these parts, each once: {', '.join(parts)}")

    def made(mark: re.Match[str]) -> str:
        name = mark["name"]
        lines = "\n".join(parts[name]).strip()
        return f"<!-- made: {name} -->\n\n{lines}\n\n<!-- end of {name} -->"

    return MADE.sub(made, page)


def made_parts() -> dict[str, Iterable[str]]:
    """The lines of each part by its name."""
    return {
        **{kind.__name__: settings_table(kind) for kind in map(load, CLASSES)},
        "Application": settings_table(Application),
        "spawners": _spawners(),
        "kernel.json": ["```json", (TEMPLATES / "gpu" / "kernel.json").read_text().strip(), "```"],
        "lab.json": lab_fields(),
        "variables": [line for group in GROUPS for line in _variables(group)],
    }


def load(name: str) -> type[HasTraits]:
    """The class that ``module:Class`` names."""
    module, _, kind = name.partition(":")
    return typing.cast("type[HasTraits]", getattr(importlib.import_module(module), kind))


def settings_of(kind: type[HasTraits]) -> dict[str, TraitType[Any, Any]]:
    """What may be configured of a class, in the order in which it is written down. What it has of other
    projects' classes is theirs to describe.
    """
    ours = [base for base in kind.__mro__ if base.__module__.startswith("gpu_kernels.") or base is kind]
    order = {name: None for base in reversed(ours) for name in vars(base)}
    traits = kind.class_traits(config=True)
    return {name: traits[name] for name in order if name in traits}


def is_worked_out(kind: type[HasTraits], name: str) -> bool:
    """Whether the default depends on where the process runs; the help then says how."""
    return any(name in vars(base).get("_trait_default_generators", {}) for base in kind.__mro__)


def settings_table(kind: type[HasTraits]) -> Iterator[str]:
    options = _options(kind)
    yield "| setting, type, default | |"
    yield "|---|---|"
    for name, trait in settings_of(kind).items():
        option = f"<br>`--{options[name]}`" if name in options else ""
        value = "default: see text" if is_worked_out(kind, name) else f"`{trait.default_value_repr()}`"
        yield f"| `c.{kind.__name__}.{name}`{option}<br>{_type(trait)}, {value} | {cell(trait.help)} |"


def _options(kind: type[HasTraits]) -> Mapping[str, str]:
    """The short options by the setting that each stands for."""
    aliases = getattr(kind, "aliases", {})
    return {
        target.rpartition(".")[2]: option for option, target in aliases.items() if isinstance(option, str)
    }


def _type(trait: TraitType[Any, Any]) -> str:
    bounds = [
        f"{word} {bound:g}"
        for word, bound in (("from", getattr(trait, "min", None)), ("to", getattr(trait, "max", None)))
        if bound is not None and abs(bound) != float("inf")
    ]
    return " ".join([_python_type(trait), *bounds])


def _python_type(trait: Any) -> str:
    """As one would write the value in a configuration file."""
    if isinstance(trait, Enum):
        return f"one of {', '.join(f'`{value!r}`' for value in trait.values or ())}"
    if isinstance(trait, Union):
        return " or ".join(_python_type(each) for each in trait.trait_types)
    if isinstance(trait, List):
        return f"list{_of(trait._trait)}"
    if isinstance(trait, Dict):
        return f"dict{_of(trait._value_trait)}"
    names = {Bool: "bool", Int: "int", Float: "float", Unicode: "str"}
    return next(name for kind, name in names.items() if isinstance(trait, kind))


def _of(inner: Any) -> str:
    if isinstance(inner, Enum):
        return " of str"
    return f" of {_python_type(inner)}" if isinstance(inner, (Bool, Int, Float, Unicode, List)) else ""


def _spawners() -> Iterator[str]:
    yield "| value | class |"
    yield "|---|---|"
    for point in sorted(entry_points(group="jupyterhub.spawners"), key=lambda point: point.name):
        if point.value.startswith("gpu_kernels."):
            yield f'| `"{point.name}"` | `{point.value.replace(":", ".")}` |'


def lab_fields() -> Iterator[str]:
    hints = typing.get_type_hints(Settings, include_extras=True)
    yield "| field, type, default | |"
    yield "|---|---|"
    for field in dataclasses.fields(Settings):
        kind, told = typing.get_args(hints[field.name])
        default = "" if field.default is dataclasses.MISSING else f", `{field.default!r}`"
        yield f"| `{field.name}`<br>{'str' if kind is Path else kind.__name__}{default} | {told} |"


def _variables(group: Group) -> Iterator[str]:
    yield f"### {group.title}\n\n{group.text}\n"
    yield "| variable | holds | read by |"
    yield "|---|---|---|"
    for variable in group.variables:
        names = "<br>".join(f"`{name}`" for name in variable.names)
        yield f"| {names} | {cell(variable.holds)} | {cell(variable.read_by)} |"
    yield ""


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_made_parts(page.read_text()), encoding="utf-8")
