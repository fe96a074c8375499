"""A pytest plugin that leaves what came of a run, for ``tests.rerun``: ``-p tests.outcomes --outcomes FILE``.

It writes one JSON object to the file when all has run: a run that does not come to its end leaves none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path, help="write there what came of the run, as JSON")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """A worker of a run that is spread over processes has no part in this; who spreads it knows all."""
    if hasattr(config, "workerinput"):
        return
    stats = terminalreporter.stats
    wrong = [*stats.get("failed", ()), *stats.get("error", ())]
    tests = {report.nodeid for report in wrong if isinstance(report, pytest.TestReport)}
    outcomes = {
        "passed": len({report.nodeid for report in stats.get("passed", ())} - tests),
        "skipped": len(stats.get("skipped", ())),
        "expected failures": len(stats.get("xfailed", ())),
        "failed": sorted(tests),
        "not read": sorted({report.nodeid for report in wrong if isinstance(report, pytest.CollectReport)}),
    }
    config.option.outcomes.write_text(json.dumps(outcomes), encoding="utf-8")
