"""One notebook, executed by nbclient: bounded in time, size and output, and written whole or not at all."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from jupyter_core.utils import ensure_async
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from traitlets.config import Config

TIMEOUT = "CellTimeoutError"
LARGEST_NOTEBOOK = 64 * 1024 * 1024
LARGEST_OUTPUT = 32 * 1024 * 1024
"""Bytes of all that the cells of a notebook show; more would fill the grader's memory."""


TOO_MUCH_SHOWN = f"It shows more than {LARGEST_OUTPUT >> 20} MiB in all."


class TooMuch(RuntimeError):
    """A notebook is larger, or shows more, than it may. ``str()`` is for the grader."""


class BoundedClient(NotebookClient):
    """Ends a notebook that shows too much, its kernel at once: a cell that goes on would fill memory."""

    shown = 0
    ending: asyncio.Future[Any] | None = None

    def process_message(self, msg: dict[str, Any], *others: Any, **named: Any) -> Any:
        self.shown += size_of(msg.get("content"))
        if self.shown > LARGEST_OUTPUT:
            if self.ending is None and self.km is not None:
                self.ending = asyncio.ensure_future(ensure_async(self.km.shutdown_kernel(now=True)))
            raise TooMuch(TOO_MUCH_SHOWN)
        return NotebookClient.process_message(self, msg, *others, **named)  # nbgrader's client borrows this


def size_of(value: Any) -> int:
    """About how much a message holds; cheap for one long text, which is how much is shown at once."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(size_of(item) for item in value.values())
    if isinstance(value, list | tuple):
        return sum(size_of(item) for item in value)
    return 8


def execute(
    notebook: str, written: str, *, kernel: str, timeout: int, config: dict[str, Any], **_: Any
) -> int:
    """Run all cells, errors or not, and write the notebook with what they showed. How many ended with an
    error. Raises what keeps it from being run.
    """
    path = Path(notebook)
    if (size := path.stat().st_size) > LARGEST_NOTEBOOK:
        raise TooMuch(f"It is {size >> 20} MiB long, and may be {LARGEST_NOTEBOOK >> 20}.")
    content: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = BoundedClient(
        content,
        kernel_name=kernel,
        timeout=timeout,
        allow_errors=True,
        interrupt_on_timeout=True,
        error_on_timeout={
            "ename": TIMEOUT,
            "evalue": f"the cell ran for longer than {timeout} s",
            "traceback": [],
        },
        on_cell_executed=_tell_of_timeout,
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
        config=Config(config),
    )
    try:
        client.execute()
    except DeadKernelError:
        if client.ending is not None:
            raise TooMuch(TOO_MUCH_SHOWN) from None
        raise
    _write(content, Path(written))
    return sum(any(out.output_type == "error" for out in cell.get("outputs", ())) for cell in content.cells)


def _tell_of_timeout(*, cell: Any, execute_reply: Any, **_: Any) -> None:
    """What the client says of a cell that was interrupted stands in its reply alone."""
    said = execute_reply["content"]
    if said.get("ename") == TIMEOUT:
        error = {"ename": TIMEOUT, "evalue": said["evalue"], "traceback": [f"{TIMEOUT}: {said['evalue']}"]}
        cell.outputs.append(nbformat.v4.new_output("error", **error))  # type: ignore[no-untyped-call]


def _write(content: Any, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=target.parent, prefix=".gpu-grade-", delete=False) as draft:
        try:
            nbformat.write(content, draft)  # type: ignore[no-untyped-call]
            draft.close()
            os.replace(draft.name, target)
        except BaseException:
            os.unlink(draft.name)
            raise
