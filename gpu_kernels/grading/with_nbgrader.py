"""One student's assignment, autograded by nbgrader in this process, with nbgrader's own configuration."""

from __future__ import annotations

import glob
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_kernels.errors import GPUKernelsError
from gpu_kernels.grading import notebook
from gpu_kernels.grading.submissions import LONGEST_TEXT


class NbgraderMissing(GPUKernelsError):
    """nbgrader is not installed."""

    code = "nbgrader_missing"


class NbgraderFailed(GPUKernelsError):
    """nbgrader did not grade a submission."""

    code = "nbgrader_failed"


class _Said(logging.Handler):
    """What nbgrader's log says of what went wrong, in a line."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.why = ""
        self._raised = False

    def emit(self, record: logging.LogRecord) -> None:
        """Called by the log. The end of the last traceback, or else the last that was said."""
        text = record.getMessage().strip()
        raised = text.startswith("Traceback")
        if text and raised >= self._raised:
            self.why, self._raised = text.splitlines()[-1][:LONGEST_TEXT], raised


def _app() -> Any:
    try:
        from nbgrader.apps import AutogradeApp  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise NbgraderMissing(f"nbgrader cannot be used here ({error}): pip install nbgrader") from None
    return AutogradeApp


def students(assignment: str, folder: str) -> list[str]:
    """Who has handed in something for an assignment, in alphabetical order."""
    os.chdir(folder)
    app = _app()()
    app.initialize([])
    coursedir = app.coursedir
    submitted = coursedir.submitted_directory
    pattern = coursedir.format_path(submitted, "(?P<student>.*)", re.escape(assignment), escape=True)
    paths = glob.glob(coursedir.format_path(submitted, "*", glob.escape(assignment)))
    matches = [re.fullmatch(pattern, path) for path in paths if os.path.isdir(path)]
    return sorted({match["student"] for match in matches if match is not None})


def autograde(
    assignment: str,
    student: str,
    folder: str,
    *,
    kernel: str,
    timeout: int | None,
    again: bool,
    config: dict[str, Any],
    writes: Callable[[Path], object],
    **_: Any,
) -> int:
    """As ``nbgrader autograde ASSIGNMENT --student STUDENT``. Raises ``NbgraderFailed``, or ``TooMuch``.

    ``writes`` is told the folder of the result before anything is written there.
    """
    from traitlets.config import Config

    os.chdir(folder)
    too_much = _bound_output()
    app = _app().instance(config=Config(config))
    arguments = [assignment, f"--student={student}"]
    arguments += [f"--Execute.kernel_name={kernel}"] if kernel else []
    arguments += [f"--Execute.timeout={timeout}"] if timeout is not None else []
    arguments += ["--force"] if again else []
    app.initialize(arguments)
    app.config.merge(Config(config))
    place = app.coursedir.format_path(app.coursedir.autograded_directory, student, assignment)
    writes(Path(os.path.abspath(place)))
    said = _Said()
    app.log.addHandler(said)
    try:
        app.start()
    except SystemExit as error:
        if too_much:
            raise notebook.TooMuch(notebook.TOO_MUCH_SHOWN) from None
        if error.code not in (0, None):
            raise NbgraderFailed(f"nbgrader could not grade it: {said.why or 'it did not say why'}") from None
    return 0


def _bound_output() -> list[int]:
    """Have nbgrader's client end what shows too much; the list grows where it did."""
    from nbgrader.preprocessors import Execute  # type: ignore[import-not-found, unused-ignore]

    ended: list[int] = []

    def process_message(client: Any, *told: Any, **named: Any) -> Any:
        try:
            return notebook.BoundedClient.process_message(client, *told, **named)
        except notebook.TooMuch:
            ended.append(client.shown)
            raise

    Execute.shown, Execute.ending, Execute.process_message = 0, None, process_message
    return ended
