"""A real pool with a grading account, and notebooks for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest

from tests.cli.conftest import pytest_collection_modifyitems as skip_what_is_not_built
from tests.cli.lab import COURSE, Lab, wait_until

ACCOUNT = f"{COURSE}-grading"
Write = Callable[..., Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_what_is_not_built([item for item in items if "grading" in item.path.parts])


@pytest.fixture(scope="session")
def running_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("grading-lab"), lease_ttl=20.0)
    lab.env["GPU_KERNELS_TOKEN"] = "iris-token"
    lab.env["IPYTHONDIR"] = str(lab.folder / "ipython")
    yield lab
    lab.close()


@pytest.fixture
def lab(running_lab: Lab) -> Iterator[Lab]:
    """The grading account may hold a tenth of a V100; what is left of a test is ended, as are the leases of
    workers that were killed, which would expire.
    """
    running_lab.admin.put_account(ACCOUNT, kind="course", parent=None, weight=1.0, rules={})
    running_lab.admin.set_limit(ACCOUNT, {"V100": 100})
    yield running_lab
    running_lab.end_started()
    for lease in running_lab.admin.list(everyone=True):
        running_lab.admin.revoke(lease.id, "the test is over")
    wait_until(lambda: running_lab.used_mib() == 0, 60)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a notebook of these cells."""

    def write(name: str, *cells: str, folder: Path | None = None) -> Path:
        path = (folder or tmp_path / "submitted") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook_of(*cells), path)
        return path

    return write


def notebook_of(*cells: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )


def shown(path: Path) -> str:
    """All that the cells of a notebook show."""
    content = nbformat.read(path, as_version=4)
    texts = [out.get("text") or out.get("evalue") or "" for cell in content.cells for out in cell.outputs]
    return "".join(texts)


def waits_for(go: Path) -> str:
    """A cell that says that it runs, and goes on when a file is there."""
    ready = go.with_suffix(".ready")
    return (
        f"import os, time\nopen({str(ready)!r}, 'w').close()\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.05)"
    )


def runs(go: Path) -> Callable[[], bool]:
    return lambda: os.path.exists(go.with_suffix(".ready"))
