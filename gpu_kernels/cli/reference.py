"""docs/reference/command-line.md: ``python -m gpu_kernels.cli.reference PAGE`` writes it anew from the
parsers and the services' options. A test fails while the page differs.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

from traitlets.config import Application

from gpu_kernels import cli
from gpu_kernels.markdown import cell

HEAD = """\
# The command line

`jupyter gpu COMMAND`, made from the code (`python -m gpu_kernels.cli.reference`). Guides with examples:
[run a program](../how-to/run-a-program.md), [look after the pool](../how-to/look-after-the-pool.md).
"""
SERVICES_HEAD = """\
## Services

Each option stands for a setting, which may be in a configuration file too (`--config FILE`); settings without
an option of their own are given as `--CLASS.NAME=VALUE`. All of them, with types and defaults:
[configuration](configuration.md).
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_commands(), SERVICES_HEAD, *_services()]).rstrip() + "\n"


def _commands() -> Iterator[str]:
    subparsers = next(
        action for action in cli.parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    for name, (_, summary) in cli.COMMANDS.items():
        yield f"## `jupyter gpu {name}`\n\n{_sentence(summary)}\n"
        yield from _options(subparsers.choices[name], f"jupyter gpu {name}", 3)


def _options(parser: argparse.ArgumentParser, name: str, level: int) -> Iterator[str]:
    """What the parser takes, and then what its own commands take."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    actions = [
        action for action in parser._actions if action not in below and "--help" not in action.option_strings
    ]
    if actions:
        yield "| option | |\n|---|---|"
        yield from (f"| {_called(action)} | {cell(action.help or '')} |" for action in actions)
        yield ""
    for action in below:
        for command, child in action.choices.items():
            yield f"{'#' * level} `{name} {command}`\n"
            if child.description:
                yield f"{child.description.strip()}\n"
            yield from _options(child, f"{name} {command}", level + 1)


def _called(action: argparse.Action) -> str:
    value = action.metavar or action.dest.upper()
    shown = value if isinstance(value, str) else " ".join(value)
    if not action.option_strings:
        return f"`{shown}`"
    takes = "" if action.nargs == 0 else f" {shown}"
    return ", ".join(f"`{option}{takes}`" for option in action.option_strings)


def _services() -> Iterator[str]:
    for name, (module, summary) in cli.SERVICES.items():
        app = _application(importlib.import_module(module))
        yield f"### `jupyter gpu {name}`\n\n{_sentence(summary)}\n\n| option | setting | |\n|---|---|---|"
        traits = app.class_traits(config=True)
        for option, target in app.aliases.items():
            help_text = traits[target.rpartition(".")[2]].help
            yield f"| `--{option}` | `c.{app.__name__}.{target.rpartition('.')[2]}` | {cell(help_text)} |"
        yield ""


def _application(module: object) -> type[Application]:
    return next(
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Application) and kind.__module__ == module.__name__  # type: ignore[attr-defined]
    )


def _sentence(summary: str) -> str:
    return summary[0].upper() + summary[1:] + ("" if summary.endswith("?") else ".")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
