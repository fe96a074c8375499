"""The benchmark of a class that begins: what it reads of event loops, and all of it with two students."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from benchmarks.lab_load import report
from benchmarks.lab_load.__main__ import run
from benchmarks.lab_load.loops import read
from benchmarks.lab_load.plan import Plan
from benchmarks.lab_load.shares import STUDENTS, Shares
from benchmarks.lab_load.visits import STAGES, Visit
from gpu_kernels.hub_config.lab.settings import MARKER_VARIABLE
from tests.native_build import ROOT

BLOCKED = """
import asyncio, sys, time
from pathlib import Path
from benchmarks.lab_load.loop_watch import watch
import gpu_kernels.durations as ours

def theirs():
    time.sleep(0.3)

async def main():
    theirs()
    await asyncio.sleep(0.05)
    # A function of this project that calls one that is not.
    exec(compile("def called(): theirs()", ours.__file__, "exec"), globals())
    called()
    await asyncio.sleep(2.5)  # the watch writes every two seconds
    asyncio.get_running_loop().call_later(0.1, lambda: None)
    await asyncio.sleep(0.3)

watch("hub", Path(sys.argv[1]) / "hub.jsonl")
asyncio.run(main())
"""


def test_a_blocked_loop_is_seen_and_whose_doing_it_is(tmp_path):
    subprocess.run(
        [sys.executable, "-c", BLOCKED, tmp_path], cwd=ROOT, check=True, timeout=100, env=with_tree()
    )
    loops = read(tmp_path)["hub"]
    assert loops.processes == 1
    by_us = [block for block in loops.blocks if block.ours]
    by_them = [block for block in loops.blocks if not block.ours and "theirs" in block.where]
    assert len(by_us) == len(by_them) == 1
    assert by_us[0].name == by_them[0].name == "main"
    assert by_us[0].wall >= 0.3
    assert "gpu_kernels/durations.py" in by_us[0].where
    assert by_us[0].ours <= by_us[0].own <= by_us[0].wall
    assert loops.latest >= 0.25
    assert 0 < loops.held_up < 1


def test_half_a_line_of_a_process_that_was_killed_is_left_out(tmp_path):
    (tmp_path / "server-ana.jsonl").write_text('{"block": "ma')
    assert read(tmp_path)["server"].blocks == []


def test_a_seed_says_who_comes_when():
    one, same, other = (Plan.of(20, 60, seed) for seed in (1, 1, 2))
    assert one.arrivals == same.arrivals != other.arrivals
    assert list(one.arrivals) == sorted(one.arrivals)
    assert 0 <= one.arrivals[0] <= one.arrivals[-1] <= 60
    assert len({login.password for login in one.logins()}) == 20


def test_who_was_refused_or_lost_is_a_failure_and_told():
    visits = [
        Visit("a", seconds=dict.fromkeys(STAGES, 1.0), ran=9.0),
        Visit("b", refused="at 'log in': 403: no"),
        Visit("c", lost="at 'run cell': TimeoutError"),
    ]
    outcome = report.Outcome(visits, 10.0, ["a worker lives"], {}, 0, {})
    assert len(outcome.failures) == 3
    assert [text.split()[0] for text in outcome.failures] == ["b", "c", "a"]
    found = {figure.name: figure for figure in report.figures(outcome)}
    assert found["students whose cell ran"].value == 1
    assert [found[name].meets_aim() for name in ("refused", "lost")] == [False, False]


BECOMES_A_WORKER = """
import os, sys
sys.stdin.readline()
command = [sys.executable, "-c", "input()", "gpu-worker"]
os.execve(command[0], command, {sys.argv[2]: sys.argv[3]})
"""


@pytest.mark.parametrize("began_with", [MARKER_VARIABLE, "ANOTHER_VARIABLE"])
def test_a_process_counts_as_what_it_became(began_with):
    """A worker is its agent between fork and exec, and has no environment in the middle of exec."""
    command = [sys.executable, "-c", BECOMES_A_WORKER, "gpu_kernels.remoting.agent", MARKER_VARIABLE, "a lab"]
    shares = Shares("a lab")
    with subprocess.Popen(command, env={began_with: "a lab"}, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        shares.look()
        process.stdin.write("become\n")
        process.stdin.flush()
        while "gpu-worker" not in psutil.Process(process.pid).cmdline():
            time.sleep(0.01)
        shares.look()
        process.communicate("end\n")
    assert {*shares.by_kind()} == {"workers", STUDENTS}


@pytest.mark.slow
@pytest.mark.native
@pytest.mark.hub
@pytest.mark.timeout(600)
def test_two_students_come_get_slices_compute_and_go(tmp_path):
    outcome = run(Plan.of(2, 1.0, seed=1), tmp_path)
    assert outcome.failures == []
    assert all(set(visit.seconds) == set(STAGES) for visit in outcome.visits)
    assert set(outcome.loops) == {"hub", "controller", "pages", "server"}
    assert all(loops.callbacks for loops in outcome.loops.values())
    assert {"hub", "kernels", "single-user servers", "workers"} <= set(outcome.processors)
    for text in (report.stages(outcome.visits), report.processors(outcome), report.loops(outcome)):
        assert len(text.splitlines()) > 3
    json.dumps([figure.value for figure in report.figures(outcome)])


def with_tree():
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
