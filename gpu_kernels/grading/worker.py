"""``python -m gpu_kernels.grading.worker``: runs one submission. The task comes as JSON on standard input,
what became of it goes as JSON to the file named as the only argument; standard output is a log.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpu_kernels.errors import GPUKernelsError
from gpu_kernels.grading import strays
from gpu_kernels.grading.slices import Slices
from gpu_kernels.grading.submissions import LONGEST_TEXT, Verdict
from gpu_kernels.provisioner.leasing import keep_token

PR_SET_PDEATHSIG = 1


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    task, verdict = json.load(sys.stdin), Path(sys.argv[1])
    if task["kind"] == "students":
        from gpu_kernels.grading import with_nbgrader

        try:
            answer: Any = {"students": with_nbgrader.students(task["assignment"], task["folder"])}
        except GPUKernelsError as error:
            answer = {"error": error.message}
    else:
        strays.come_to_us()
        answer = asdict(judged(task))
        strays.end()  # before the verdict is written, lest they write another
    draft = verdict.with_suffix(".new")
    draft.write_text(json.dumps(answer))
    os.replace(draft, verdict)


class Written:
    """What a run is to write, and whether it has: what an earlier one wrote stays until then."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._before: tuple[int, int] | None = None

    def at(self, path: Path) -> None:
        """Called before it begins to write."""
        self._path, self._before = path, _stamp(path)

    def forget(self) -> None:
        """Take away what does not count, so that the next run does it anew."""
        if self._path is None or _stamp(self._path) in (None, self._before):
            return
        if not self._path.is_dir():
            self._path.unlink(missing_ok=True)
            return
        from nbgrader.utils import rmtree  # type: ignore[import-not-found, unused-ignore]

        rmtree(str(self._path))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def judged(task: dict[str, Any]) -> Verdict:
    """Run it, and see whether it counts."""
    keep_token()  # a submission names its kernel itself, and not each one is ours
    failure: Exception | None = None
    errors = 0
    written = Written()
    with Slices() as slices:
        try:
            errors = _run(task, written)
        except Exception as error:
            traceback.print_exc()
            failure = error
        of_slices = slices.verdict(failure)
    if of_slices is not None:
        written.forget()
        return Verdict(of_slices.result, of_slices.text[:LONGEST_TEXT])
    if failure is not None:
        return Verdict("failed", (str(failure) or type(failure).__name__)[:LONGEST_TEXT])
    return Verdict("done", errors=errors)


def _run(task: dict[str, Any], written: Written) -> int:
    told = {key: value for key, value in task.items() if key != "kind"}
    if task["kind"] == "notebook":
        from gpu_kernels.grading import notebook

        written.at(Path(task["written"]))
        return notebook.execute(**told)
    from gpu_kernels.grading import with_nbgrader

    return with_nbgrader.autograde(**told, writes=written.at)


if __name__ == "__main__":
    main()
