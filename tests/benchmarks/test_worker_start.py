"""The benchmark of what it costs to hold a worker, at its smallest."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from benchmarks.worker_start import measure
from gpu_kernels.remoting.agent.cgroups import mounts


@pytest.mark.native
def test_a_pair_of_workers_starts_and_ends():
    figures = {figure.name: figure for figure in measure(smallest=True)}
    assert figures["worker start, with confinement"].value > 0
    assert figures["worker start, without confinement"].value > 0
    assert figures["worker start, more than without confinement"].aim == 50.0


@pytest.mark.native
def test_it_prints_figures_as_json_and_leaves_no_cgroup():
    command = [sys.executable, "-m", "benchmarks.worker_start", "--smallest", "--json", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        printed, _ = process.communicate()
    assert process.returncode == 0
    assert {row["unit"] for row in json.loads(printed)} == {"ms"}
    assert not [tree for tree in mounts() if (tree / f"gpu-kernels-bench-{process.pid}").exists()]
