"""A cell's output that is shown again while something changes: in a notebook, and in a terminal."""

from __future__ import annotations

import sys
from html import escape
from typing import Any

BAR_WIDTH = 30


class Line:
    """How the line moves: the text of the attach point, with a bar where the end can be foreseen."""

    def __init__(self, text: str, since: float, starts_in: float | None) -> None:
        self.text = text
        self.since = since
        self.starts_in = starts_in

    @property
    def done(self) -> float | None:
        """The part of the wait that is over, from 0 to 1; None where nobody knows."""
        if self.starts_in is None:
            return None
        return self.since / max(self.since + self.starts_in, 1e-9)

    def __repr__(self) -> str:
        waited = f"{int(self.since) // 60}:{int(self.since) % 60:02}"
        if self.done is None:
            return f"{self.text} [{waited}]"
        full = round(BAR_WIDTH * self.done)
        return f"{self.text} [{'#' * full}{'.' * (BAR_WIDTH - full)}] {waited}"

    def _repr_html_(self) -> str:
        value = "" if self.done is None else f' value="{self.done:.3f}"'
        waited = f"{int(self.since) // 60} min {int(self.since) % 60} s"
        return (
            f'<div role="status">{escape(self.text)}<br>'
            f'<progress max="1"{value} style="width:20em" aria-label="waiting for the GPU"></progress> '
            f"{waited} so far; the interrupt button stops the wait, and your place stays.</div>"
        )


class Live:
    """``show`` replaces what was shown before. A terminal has one line for it."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._in_terminal = not _in_kernel()
        self._width = 0

    def show(self, thing: object) -> None:
        if self._in_terminal:
            text = repr(thing).replace("\n", " ")
            sys.stdout.write("\r" + text.ljust(self._width))
            sys.stdout.flush()
            self._width = len(text)
            return
        from IPython.display import display

        if self._handle is None:
            self._handle = display(thing, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(thing)

    def end(self, thing: object) -> None:
        """The last thing to show, instead of a line that moves. Nothing, if nothing was shown."""
        if self._handle is None and not self._width:
            return
        self.show(thing)
        if self._in_terminal:
            sys.stdout.write("\n")


def _in_kernel() -> bool:
    from IPython.core.getipython import get_ipython

    return hasattr(get_ipython(), "kernel")
