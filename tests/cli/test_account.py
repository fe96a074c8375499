from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_kernels.exits import Exit
from tests.cli.command_line import Run, command_line
from tests.pool.controller import Agent, ThreadedController


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run ``jupyter gpu account`` as somebody, against a real controller with one V100; the exit status."""
    with ThreadedController(tmp_path / "state") as controller:
        Agent(controller.client("gpu-server")).register()
        yield command_line(controller, monkeypatch, "account")


@pytest.fixture
def uni(run, capsys):
    """A university with a faculty, made from the command line."""
    assert run("root", "uni", "--set", "kind=institution", "--set", "max_leases=5") == Exit.OK
    assert (
        run("root", "science", "--set", "kind=faculty", "--set", "nominal=0.6", "--set", "idle=30 min") == 0
    )
    assert run("root", "ml101", "--set", "parent=science", "--set", "nominal=0.05 V100") == Exit.OK
    capsys.readouterr()


def rows(text):
    return [line.split() for line in text.splitlines()]


def test_the_tree_is_shown_with_what_is_sure_and_what_there_is_room_for(uni, run, capsys):
    assert run("root") == Exit.OK
    assert rows(capsys.readouterr().out)[1:5] == [
        ["uni", "institution", "0", "V100", "1", "V100", "1", "V100"],
        ["cv202", "course", "0", "V100", "0", "V100", "1", "V100", "1", "V100"],
        ["science", "faculty", "0", "V100", "0.6", "V100"],
        ["ml101", "course", "0", "V100", "0.05", "V100", "0.1", "V100", "0.1", "V100"],
    ]


def test_what_is_not_named_stays(uni, run, capsys):
    assert run("root", "ml101", "--set", "max_size=V100: 0.1", "--set", "weight=2") == Exit.OK
    capsys.readouterr()
    assert run("root", "ml101", "--set", "limit=0.3", "--json") == Exit.OK
    account = json.loads(capsys.readouterr().out)
    assert account["path"] == ["uni", "science", "ml101"]
    assert (account["weight"], account["rules"]) == (2.0, {"max_size": {"V100": 100}})
    stands = account["classes"]["V100"]
    assert (stands["nominal"], stands["hard_limit"], stands["own"]) == (50, 300, True)


def test_what_is_unset_comes_from_above_again(uni, run, capsys):
    run("root", "ml101", "--set", "max_leases=2", "--set", "idle=none")
    assert "ml101: own rules: max_leases 2, idle none" in capsys.readouterr().out
    assert run("root", "ml101", "--unset", "max_leases", "--unset", "nominal", "--unset", "limit") == Exit.OK
    output = capsys.readouterr().out
    assert "ml101: from above: max_leases 5" in output
    assert rows(output)[1] == ["ml101", "course"], "no share of any class"


def test_an_instructor_tightens_rules(uni, run, capsys):
    assert run("grace", "ml101", "--set", "max_leases=1") == Exit.OK
    assert "its instructors' rules: max_leases 1" in capsys.readouterr().out
    assert run("grace", "ml101", "--set", "max_leases=9") == Exit.NO_PERMISSION
    assert "would allow more: max_leases" in capsys.readouterr().err
    assert run("grace", "ml101", "--set", "nominal=1") == Exit.NO_PERMISSION


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--set", "limit=0,5"], "limit cannot be read as '0,5': write decimals with a point, as in '0.5'"),
        (["--set", "limt=1"], "There is no property limt; did you mean limit?"),
        (["--set", "limit"], "write limit=V100: 0.5"),
        (["--unset", "idl"], "did you mean idle?"),
        (["--set", "nominal=0.2"], "cannot be sure of 0.2 V100 (nominal) and never hold more than 0.1 V100"),
        (["--set", "parent=nowhere"], "no such account"),
    ],
)
def test_what_cannot_be_read_or_be_is_said(uni, run, capsys, arguments, why):
    assert run("root", "ml101", *arguments) == Exit.USAGE
    assert why in capsys.readouterr().err


def test_an_account_is_removed(uni, run, capsys):
    assert run("root", "science", "--remove") == Exit.FAILED
    assert "ml101 belongs to it" in capsys.readouterr().err
    assert run("root", "ml101", "--remove") == Exit.OK
    assert run("root", "ml101") == Exit.USAGE
    assert run("root", "--remove") == Exit.USAGE
