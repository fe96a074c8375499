from __future__ import annotations

import json
import os
import sys

from tests.cli.lab import Lab


def test_status_shows_leases_pool_and_courses_and_no_secret(lab: Lab):
    holding = lab.start_gpu(
        "run", "-p", "0.02", "--", sys.executable, "-c", "print('ready', flush=True); input()"
    )
    assert holding.stdout.readline() == "ready\n"
    shown = lab.gpu("status")
    told = lab.gpu("status", "--json")
    holding.communicate("\n", timeout=60)
    (lease,) = json.loads(told.stdout)["leases"]
    assert (lease["size"], lease["mib"], lease["state"], lease["course"]) == (
        "0.02 GPU",
        655,
        "reserved",
        "ml101",
    )
    assert "secret" not in told.stdout
    assert lease["id"] in shown.stdout
    assert "V100 (software GPU)" in shown.stdout
    assert "0.02 V100" in shown.stdout, "what the course has in use"
    assert "0.1 V100" in shown.stdout, "the course's limit"
    assert (shown.returncode, told.returncode, shown.stderr) == (0, 0, "")


def test_status_without_leases_says_so(lab: Lab):
    assert "(none)" in lab.gpu("status").stdout


def test_status_needs_a_pool_and_a_token(lab: Lab):
    assert lab.gpu("status", GPU_KERNELS_CONTROLLER="http://127.0.0.1:9").returncode == os.EX_UNAVAILABLE
    assert lab.gpu("status", GPU_KERNELS_TOKEN="wrong").returncode == os.EX_NOPERM
