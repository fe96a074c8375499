"""What a benchmark prints: a list of figures, as a table for people or as JSON for programs."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Figure:
    """One measured figure. ``aim`` is what the project wants it to be, or None where nothing was set."""

    name: str
    value: float
    unit: str
    better: Literal["lower", "higher"]
    aim: float | None = None

    def meets_aim(self) -> bool | None:
        if self.aim is None:
            return None
        return self.value <= self.aim if self.better == "lower" else self.value >= self.aim


def median(samples: Iterable[float]) -> float:
    """The median, which is what every figure quotes: these machines are shared and noisy."""
    return statistics.median(samples)


def table(figures: list[Figure]) -> str:
    rows = [("figure", "value", "unit", "aim", "")]
    verdicts = {True: "met", False: "missed", None: ""}
    for figure in figures:
        aim = "" if figure.aim is None else f"{'≤' if figure.better == 'lower' else '≥'} {figure.aim:.4g}"
        rows.append((figure.name, f"{figure.value:.4g}", figure.unit, aim, verdicts[figure.meets_aim()]))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    lines = []
    for row in rows:
        name, value, *rest = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join([name, value.strip().rjust(widths[1]), *rest]).rstrip())
    return "\n".join(lines)


def main(measure: Callable[[bool], list[Figure]], description: str | None) -> None:
    """The command line of a benchmark without options of its own: ``measure`` is told whether to take the
    smallest sizes. ``--before CHECKOUT`` runs it beside itself there instead, in pairs.
    """
    parser = argparse.ArgumentParser(description=description)
    add_options(parser)
    parser.add_argument("--before", metavar="CHECKOUT", type=Path, help="beside the same in another checkout")
    parser.add_argument("--pairs", metavar="N", type=int, default=20, help="so often, with --before (20)")
    arguments = parser.parse_args()
    if arguments.before is None:
        emit(measure(arguments.smallest), arguments.json)
        return
    from benchmarks.pairs import run_in_pairs  # which imports this module

    program = sys.modules["__main__"].__spec__
    assert program is not None, "run as python -m benchmarks.NAME"
    here = Path(__file__).resolve().parents[1]
    emit(run_in_pairs(program.name, here, arguments.before.resolve(), arguments.pairs), arguments.json)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What every benchmark understands; ``--json -`` prints JSON, and it alone, on standard output."""
    parser.add_argument("--json", metavar="FILE", help="write the figures there ('-': standard output)")
    parser.add_argument(
        "--smallest", action="store_true", help="the smallest sizes: whether it works, and not how fast"
    )


def emit(figures: list[Figure], target: str | None) -> None:
    """Print the table; or JSON, where ``target`` is '-'; or both, JSON to the file of that name."""
    text = json.dumps([asdict(figure) for figure in figures], indent=2)
    if target == "-":
        sys.stdout.write(text + "\n")
        return
    if target:
        Path(target).write_text(text + "\n")
    print(table(figures))
