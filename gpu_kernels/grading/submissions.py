"""What a grading run is to do: each submission with what its worker is told."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gpu_kernels.errors import InvalidRequest

Result = Literal["done", "refused", "reclaimed", "failed", "skipped"]
RESULTS: tuple[Result, ...] = ("done", "refused", "reclaimed", "failed")
"""What a worker may answer."""
LATER: tuple[Result, ...] = ("refused", "reclaimed")
"""What the same command may do later."""
LONGEST_TEXT = 2000


@dataclass(frozen=True, slots=True)
class Submission:
    """One thing to run. ``task`` goes to the worker as JSON; ``written`` is what is there once it is done."""

    name: str
    task: Mapping[str, Any]
    written: Path | None = None

    @property
    def done_before(self) -> bool:
        return self.written is not None and self.written.exists()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a submission. ``text`` is for the grader; ``errors``: cells that ended with an error."""

    result: Result
    text: str = ""
    errors: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Report:
    """All verdicts, in the order of the submissions."""

    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def count(self, *results: Result) -> int:
        return sum(verdict.result in results for verdict in self.verdicts.values())


def of_notebooks(notebooks: Sequence[Path], output: Path, **told: Any) -> list[Submission]:
    """A submission for each notebook; the executed one goes below ``output``, where it lay below the folder
    that all have in common. Raises ``InvalidRequest`` for what is no file, and where it would be overwritten.
    """
    paths = [Path(os.path.abspath(path)) for path in notebooks]
    if missing := [str(path) for path in paths if not path.is_file()]:
        raise InvalidRequest(f"There is no such notebook: {', '.join(missing[:5])}")
    common = Path(os.path.commonpath([path.parent for path in paths]))
    target = Path(os.path.abspath(output))
    found = {}
    for path in paths:
        place = path.relative_to(common)
        written = target / place
        if written == path:
            raise InvalidRequest(f"{path} would be overwritten: name another folder as --output.")
        task = {"kind": "notebook", "notebook": str(path), "written": str(written), **told}
        found[written] = Submission(str(place), task, written)
    return list(found.values())


def of_assignment(assignment: str, students: Sequence[str], folder: Path, **told: Any) -> list[Submission]:
    """A submission for each student; nbgrader itself knows what is done already."""
    task = {"kind": "nbgrader", "assignment": assignment, "folder": str(folder), **told}
    return [Submission(f"{student}/{assignment}", {**task, "student": student}) for student in students]
