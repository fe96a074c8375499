"""A framework in a notebook on a slice: cells in a real kernel of its environment, and a lab."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import nbclient
import nbformat
import pytest

from gpu_kernels import kernelspecs
from gpu_kernels.client import Slot
from gpu_kernels.provisioner import attachments
from tests.cli.lab import Lab, wait_until

SPEC = "python3-gpu-0.02-v100"
CANNOT_GO_ON = "cannot go on with another slice: restart the kernel before you use it again"
PROGRAMS = Path(__file__).parent / "xla" / "programs"
GOES_WRONG = f"import sys\nsys.path.insert(0, {str(PROGRAMS)!r})\nimport beside\nbeside.launch_wild()\n"
"""A cell with a kernel of the student's own, in the context that frameworks use."""

Run = Callable[..., list[str]]
"""Runs cells in one kernel, and gives what each showed; a cell may fail with ``allow_errors``."""


@contextmanager
def lab_with_a_gpu(folder: Path) -> Iterator[Lab]:
    lab = Lab(folder, 300.0, worker="gpu-worker")
    try:
        lab.admin.set_limit("ml101", {"V100": 500})
        yield lab
    finally:
        lab.close()


def runner(lab: Lab, python: str, prefix: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """For kernels of ``python`` on 0.02 of ``lab``'s GPU, installed in ``prefix``."""
    kernelspecs.install(prefix=prefix, sizes=["0.02 V100"])
    spec = prefix / "share" / "jupyter" / "kernels" / SPEC / "kernel.json"
    described = json.loads(spec.read_text(encoding="utf-8"))
    described["argv"][0] = python
    spec.write_text(json.dumps(described), encoding="utf-8")
    for name in [name for name in os.environ if name.startswith(("GPU_KERNELS_", "JUPYTERHUB_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GPU_KERNELS_CONTROLLER", lab.url)
    monkeypatch.setenv("GPU_KERNELS_TOKEN", "ada-token")
    monkeypatch.setenv("JUPYTER_PATH", str(prefix / "share" / "jupyter"))

    def execute(cells: list[str], *, allow_errors: bool = False) -> list[str]:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        # ipykernel shows what a library writes to standard output, but not where it thinks it is tested.
        env = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        client = nbclient.NotebookClient(notebook, kernel_name=SPEC, timeout=600, allow_errors=allow_errors)
        client.execute(env=env)
        return ["\n".join(map(shown, cell.outputs)) for cell in notebook.cells]

    return execute


def shown(output: nbformat.NotebookNode) -> str:
    text = output.get("text") or output.get("evalue") or output.get("data", {}).get("text/plain", "")
    return re.sub(r"\x1b\[[0-9;]*m", "", str(text))


@contextmanager
def full_until_a_cell_waits(lab: Lab) -> Iterator[None]:
    """The course has nothing left for a kernel that starts meanwhile, until its first CUDA call waits."""
    blocker = lab.ada.ask("0.49 V100", key="b", slot=Slot("", "b"), holder="blocker")

    def give_when_the_cell_waits() -> None:
        waits = lambda: any(each.asking and each.asking.holder.explain for each in attachments.all())  # noqa: E731
        wait_until(waits, within=300)
        lab.ada.release(blocker.id, "blocker")

    later = threading.Thread(target=give_when_the_cell_waits)
    later.start()
    yield
    later.join()


class Doings:
    """What a test does for a cell that asks for it by name and waits until it is done."""

    def __init__(self, folder: Path, **doings: Callable[[], object]) -> None:
        self._folder, self._doings = folder, doings
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Doings:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def first(self, name: str) -> str:
        """The beginning of a cell."""
        asked, done = (str(self._folder / f"{name}.{end}") for end in ("asked", "done"))
        return (
            "import os, time\n"
            f"open({asked!r}, 'w').close()\n"
            f"while not os.path.exists({done!r}): time.sleep(0.02)\n"
        )

    def _serve(self) -> None:
        left = dict(self._doings)
        while left and not self._over.wait(0.02):
            for name in [name for name in left if (self._folder / f"{name}.asked").exists()]:
                left.pop(name)()
                (self._folder / f"{name}.done").touch()


INTERRUPTED_LATER = """\
import os, signal, threading
threading.Timer(4, os.kill, (os.getpid(), signal.SIGINT)).start()
"""
"""The beginning of a cell that waits for longer than that."""


def try_refused_and_interrupted(lab: Lab, run: Run, folder: Path, imports: str, adds: str) -> list[str]:
    """What three first uses of a framework show: with the course at its limit, interrupted in the line, and
    when the slice is free.
    """
    blocker = lab.ada.ask("0.49 V100", key="b", slot=Slot("", "b"), holder="blocker")
    limit = lambda thousandths: lab.admin.set_limit("ml101", {"V100": thousandths})  # noqa: E731
    with Doings(
        folder,
        less=lambda: limit(1),
        more=lambda: limit(500),
        free=lambda: lab.ada.release(blocker.id, "blocker"),
    ) as doings:
        cells = [doings.first("less"), doings.first("more") + INTERRUPTED_LATER, doings.first("free")]
        return run([imports, "%gpu release", *(cell + adds for cell in cells)], allow_errors=True)[2:]


def assert_asked_again_each_time(refused: str, interrupted: str, there: str, added: str) -> None:
    assert refused.count("gpu-kernels: ") == 1
    assert "no GPU: 0.02 V100 is more than ml101 may hold at once" in refused
    assert interrupted.count("gpu-kernels: ") == 1
    assert "you interrupted the wait for your GPU" in interrupted
    assert added not in refused + interrupted
    assert added in there
