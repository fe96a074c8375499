"""Which process of a run has which tests, where a run has several (``-n 2``).

A file's tests run in one process, in their order. So do those of a folder whose conftest starts a lab for the
session: hub, controller and agent start once, and not once in each process. A file of few long tests that
share nothing says ``TESTS_APART = True``: each of them goes to whichever process is free.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).parents[1]
A_LAB_FOR_ALL = re.compile(r'^@pytest\.fixture\(scope="session"\)\ndef lab\(', re.M)
APART = re.compile(r"^TESTS_APART = True$", re.M)


@cache
def starts_a_lab(folder: str) -> bool:
    """Whether the files of this folder share a lab."""
    conftest = ROOT / folder / "conftest.py"
    return conftest.exists() and A_LAB_FOR_ALL.search(conftest.read_text(encoding="utf-8")) is not None


@cache
def has_tests_apart(file: str) -> bool:
    """Whether each test of this file is a unit."""
    path = ROOT / file
    return path.exists() and APART.search(path.read_text(encoding="utf-8")) is not None


def unit(name: str) -> str:
    """What a test's process runs as a whole: a file, a folder, or a test."""
    file = name.split("::", 1)[0]
    folder = file.rpartition("/")[0]
    if has_tests_apart(file):
        return name
    return folder if starts_a_lab(folder) else file


class Spreading(LoadFileScheduling):
    """Hands out units in the order of the files: large and small ones come mixed."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Processes that collect in a different order do not run. The order of a set is each process's own; seen
    in a run without others, it is mended before it meets them.
    """
    for mark in metafunc.definition.iter_markers("parametrize"):
        if isinstance(mark.args[1], set | frozenset):
            raise TypeError(
                f"the parameters of {metafunc.definition.nodeid} are a set, in no order: sort them"
            )


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Spreading:
    config.option.loadscopereorder = False
    return Spreading(config, log)  # type: ignore[arg-type]
