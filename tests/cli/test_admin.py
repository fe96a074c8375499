"""``jupyter gpu why``, ``usage`` and ``agents`` against a real controller."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_kernels.exits import Exit
from tests.cli.command_line import Run, command_line
from tests.pool.controller import Agent, ThreadedController, reserve


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[ThreadedController]:
    with ThreadedController(tmp_path / "state") as controller:
        Agent(controller.client("gpu-server")).register()
        yield controller


@pytest.fixture
def run(pool: ThreadedController, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run ``jupyter gpu`` as somebody; the exit status."""
    return command_line(pool, monkeypatch)


def test_why_tells_what_a_request_waits_for(pool, run, capsys):
    assert run("ada", "why") == Exit.OK
    assert capsys.readouterr().out == "None of your requests waits.\n"
    reserve(pool.client("eve"), size="1 V100")
    waiting = reserve(pool.client("ada"), size="0.1 V100", wait=60)
    assert run("ada", "why") == Exit.OK
    out = capsys.readouterr().out
    assert out.startswith(f"{waiting.id}\n")
    assert "V100" in out
    assert run("ada", "why", waiting.id, "--json") == Exit.OK
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], told["position"], told["full"]) == ("queued", 1, None)
    assert run("root", "why", waiting.id, "--json") == Exit.OK
    assert json.loads(capsys.readouterr().out)["full"]


def test_usage_as_a_table_as_json_and_for_a_spreadsheet(pool, run, capsys):
    reserve(pool.client("ada"))
    assert run("ada", "usage", "--by", "user", "--by", "week") == Exit.OK
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["user", "week", "leases", "GPU-hours", "used", "held"]
    assert row.split()[0] == "ada"
    assert run("grace", "usage", "--course", "ml101", "--json") == Exit.OK
    assert json.loads(capsys.readouterr().out)["sums"][0]["leases"] == 1
    assert run("root", "usage", "--csv") == Exit.OK
    assert [row["user"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))] == ["ada"]
    assert run("ada", "usage", "--user", "bob") == Exit.NO_PERMISSION
    assert run("ada", "usage", "--from", "yesterday") == Exit.USAGE
    assert "must be a date such as 2026-11-21" in capsys.readouterr().err


def test_agents_are_shown_cordoned_drained_and_written_off(pool, run, capsys):
    assert run("root", "agents") == Exit.OK
    assert "gpu1" in capsys.readouterr().out
    assert run("root", "agents", "drain", "gpu1", "--by", "2030-01-01T18:00") == Exit.OK
    assert "draining, empty by 2030-01-01 18:00 UTC" in capsys.readouterr().out
    assert run("root", "agents", "open", "gpu1", "--ends", "2030-03-31") == Exit.OK
    assert "open, ends 2030-03-31" in capsys.readouterr().out
    reserve(pool.client("ada"))
    assert run("root", "agents", "lost", "gpu1") == Exit.OK
    assert "1 lease(s) on it are over" in capsys.readouterr().out
    assert run("root", "agents", "cordon") == Exit.USAGE
    assert "Name the GPU server" in capsys.readouterr().err
    assert run("ada", "agents") == Exit.NO_PERMISSION
