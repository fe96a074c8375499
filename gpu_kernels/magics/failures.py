"""What ``%gpu`` raises: a text for the student, in the cell's output, without a traceback of ours."""

from __future__ import annotations


class Told(Exception):
    """The cell fails, so that those after it do not run; IPython shows the text alone."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


class Refused(Told):
    """The controller, or whoever looks after the slice, said no."""


class Interrupted(Told):
    """The student pressed the interrupt button while the line moved."""


class CellFailed(Told):
    """The cell under ``%%gpu`` failed and has said why; this says what became of the slice."""
