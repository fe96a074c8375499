"""Executes notebooks with kernels of a framework's own Python, and tells what their variables hold then."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nbclient
import nbformat

from gpu_kernels import kernelspecs

SIZE = "0.02 V100"
MARK = "in the end: "
CELL_ENDS_WITHIN_S = 900


def install(prefix: Path, environment: str, python: str) -> None:
    """Kernel specs below ``prefix``, as ``jupyter gpu kernelspec install --with`` makes them."""
    kernelspecs.install(prefix=prefix, sizes=[SIZE], python=python, environment=environment)


def execute(
    notebook: nbformat.NotebookNode,
    kernel: str,
    env: Mapping[str, str],
    folder: Path,
    wanted: Sequence[str] = (),
) -> dict[str, Any]:
    """Run it in place in a kernel of this name, which finds its spec by ``JUPYTER_PATH``; what the ``wanted``
    variables hold then. Raises what the first failing cell raised.
    """
    asks = (
        f"import json\nprint({MARK!r} + json.dumps({{name: globals()[name] for name in {list(wanted)!r}}}))"
    )
    notebook.cells.append(nbformat.v4.new_code_cell(asks))
    # ipykernel shows what a library writes to standard output, but not where it thinks it is tested.
    env = {name: value for name, value in env.items() if name != "PYTEST_CURRENT_TEST"}
    client = nbclient.NotebookClient(
        notebook, kernel_name=kernel, timeout=CELL_ENDS_WITHIN_S, startup_timeout=600
    )
    client.execute(env={**env, "OMP_NUM_THREADS": "1"}, cwd=str(folder))
    said = text_of(notebook.cells.pop())
    found: dict[str, Any] = json.loads(said.split(MARK)[1].splitlines()[0])
    return found


def text_of(cell: nbformat.NotebookNode) -> str:
    """What a cell printed and showed as text."""
    return "\n".join(
        output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs
    )


def path_with(prefix: Path) -> str:
    """``JUPYTER_PATH`` with the kernel specs below ``prefix`` first."""
    return os.pathsep.join(filter(None, [str(prefix / "share" / "jupyter"), os.environ.get("JUPYTER_PATH")]))
