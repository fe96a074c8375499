"""Reads ``%gpu``'s line as a command line, and carries it out."""

from __future__ import annotations

import argparse
import shlex
from typing import Any, NoReturn

from IPython.core.error import UsageError

from gpu_kernels.errors import GPUKernelsError, InvalidSize
from gpu_kernels.magics.failures import Refused

SECONDS = "wait at most S seconds (default: until the slice comes, or you interrupt the cell)"


class _Shown(Exception):
    """The help was asked for, and has been printed."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong as IPython does, and ends nothing."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n{self.format_usage().strip()}\n'%gpu --help' lists everything.")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise _Shown


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e9:
        raise ValueError
    return value


def _days(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 90:
        raise ValueError
    return value


def line_parser() -> Parser:
    parser = Parser(prog="%gpu", description="Shows and changes the slice of a GPU that this kernel has.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    commands.add_parser("status", help="what it has now (the same as %%gpu alone)")
    wait = commands.add_parser(
        "wait",
        help="wait until it has a slice",
        description="Waits until this kernel has a slice, and shows its place in the line. The interrupt "
        "button ends the wait; the place stays.",
    )
    wait.add_argument("--timeout", metavar="S", type=_seconds, help=SECONDS)
    commands.add_parser(
        "release",
        help="give the slice back",
        description="Gives the slice back, or leaves the line. Variables and files stay; you lose "
        "what is in the GPU's memory. The next CUDA call asks for a slice again.",
    )
    change = commands.add_parser(
        "attach",
        help="have a slice of another size",
        description="Asks for a slice of another size. You keep the present one until the new one is "
        "there, or if that is refused; you lose what is in its memory when it goes.",
    )
    change.add_argument("size", nargs="+", metavar="SIZE", help="such as 0.05, 1/20, 0.05 V100, 2048 MiB")
    change.add_argument("--timeout", metavar="S", type=_seconds, help=SECONDS)
    usage = commands.add_parser("usage", help="what you used, and what is left of the budgets")
    usage.add_argument("--plot", action="store_true", help="draw it, day by day")
    usage.add_argument("--days", metavar="N", type=_days, default=14, help="how far back (default: 14)")
    commands.add_parser("smi", help="the slice as nvidia-smi shows a GPU, with its options")
    return parser


def cell_parser() -> Parser:
    parser = Parser(
        prog="%%gpu",
        description="Runs this cell on a slice of another size, and goes back to the present one "
        "afterwards, also after an error. Without SIZE: if the kernel has no slice, gets one for this "
        "cell alone. Copy results to the host in the same cell.",
    )
    parser.add_argument("size", nargs="*", metavar="SIZE", help="such as 0.1, 1/10, 0.1 V100, 2048 MiB")
    parser.add_argument("--timeout", metavar="S", type=_seconds, help=SECONDS)
    return parser


def run_line(line: str) -> Any:
    """Carry ``%gpu LINE`` out; what to show. Raises ``UsageError`` and what ``failures`` has."""
    words = _words(line)
    try:
        # What follows "smi" is for that program; argparse would take its options for its own.
        options = line_parser().parse_args(words[:1] if words[:1] == ["smi"] else words)
    except _Shown:
        return None
    if options.command == "smi":
        options.options = words[1:]
    return _guarded(lambda: _carry_out(options))


def run_cell(line: str, cell: str) -> None:
    """Carry ``%%gpu LINE`` out."""
    try:
        options = cell_parser().parse_args(_words(line))
    except _Shown:
        return
    from IPython.core.getipython import get_ipython

    from gpu_kernels.magics import changes

    size = " ".join(options.size) or None
    _guarded(lambda: changes.run_with(size, options.timeout, cell, get_ipython()))


def _carry_out(options: argparse.Namespace) -> Any:
    from gpu_kernels.magics import changes

    if options.command == "wait":
        return changes.wait(options.timeout)
    if options.command == "release":
        return changes.release()
    if options.command == "attach":
        return changes.change(" ".join(options.size), options.timeout)
    if options.command == "usage":
        from gpu_kernels.magics.usage import gather

        return gather(options.days, plot=options.plot)
    if options.command == "smi":
        from gpu_kernels.magics.smi import shown

        return shown(options.options)
    from gpu_kernels.magics.report import look

    return look()


def _guarded(action: Any) -> Any:
    """What our own parts refuse, without a traceback."""
    try:
        return action()
    except InvalidSize as error:
        raise UsageError(str(error)) from None
    except GPUKernelsError as error:
        raise Refused(str(error)) from None


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"This line cannot be read: {error}.") from None
