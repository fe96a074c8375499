"""A pytest plugin for the process that runs a file of a suite: writes what it does as JSON lines.

The process may hang or die in any test, and the runner must know which: each line is in the file before the
next thing happens. ``--conformance-done`` names a file of the tests that earlier processes have been through.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

STICKY = re.compile(
    "CUDA_ERROR_(ILLEGAL_ADDRESS|ILLEGAL_INSTRUCTION|LAUNCH_FAILED|LAUNCH_TIMEOUT|ASSERT|MISALIGNED_ADDRESS"
    "|INVALID_ADDRESS_SPACE|INVALID_PC|HARDWARE_STACK_ERROR|CONTEXT_IS_DESTROYED|DEVICE_UNAVAILABLE)"
)
"""What ends a process's use of its GPU: every test after one that fails of it would fail of it too."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    group.addoption("--conformance-record", type=Path, required=True)
    group.addoption("--conformance-done", type=Path, required=True)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder(config))


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request: pytest.FixtureRequest) -> None:
    """numba-cuda's tests ask for it, and its wheel does not ship the conftest.py that has it."""
    request.cls._dump_failed_filechecks = False


class Recorder:
    """One process's record: ``start`` of a test, its result, and whether the file was done to its end."""

    def __init__(self, config: pytest.Config) -> None:
        self._out: TextIO = config.getoption("--conformance-record").open("a", encoding="utf-8")
        self._done = frozenset(config.getoption("--conformance-done").read_text(encoding="utf-8").split("\n"))
        self._reports: list[pytest.TestReport] = []
        self._faulted = False

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid not in self._done]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        # A file that cannot be imported, or is skipped whole, counts as one test with the file's name.
        if report.outcome != "passed" and report.nodeid not in self._done:
            self._write(name=report.nodeid, outcome=report.outcome, reason=_reason(report), seconds=0.0)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        started = time.monotonic()
        self._reports.clear()
        self._write(start=item.nodeid)
        handled = yield
        outcome, reason = _together(self._reports)
        seconds = round(time.monotonic() - started, 3)
        self._write(name=item.nodeid, outcome=outcome, reason=reason, seconds=seconds)
        if outcome in ("failed", "xfailed") and any(STICKY.search(str(r.longrepr)) for r in self._reports):
            self._faulted = True
            item.session.shouldstop = "the GPU has a fault"
        return handled

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    def pytest_sessionfinish(self) -> None:
        self._write(whole=not self._faulted)

    def _write(self, **entry: object) -> None:
        self._out.write(json.dumps(entry) + "\n")
        self._out.flush()


def _together(reports: list[pytest.TestReport]) -> tuple[str, str]:
    """One outcome of set-up, call and tear-down: failed before skipped before passed."""
    for report in reports:
        if report.failed:
            return "failed", _reason(report)
    for report in reports:
        if report.skipped:
            expected = getattr(report, "wasxfail", None)
            return ("skipped", _reason(report)) if expected is None else ("xfailed", str(expected))
    return "passed", ""


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(report.longrepr or report.outcome)[-6000:]
