"""Servers and kernels go after the hub where processors are short, session by session."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpu_kernels.priority import _let_session_yield

pytestmark = pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="no autogroups here")

SERVER = """
import os, subprocess, sys
from gpu_kernels.priority import niceness_of_session, yield_as_we_do, yield_processors
before = os.nice(0)
yield_processors(7)
kernel = subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True)
fresh = niceness_of_session(kernel.pid)
yield_as_we_do(kernel.pid)
print(os.nice(0) - before, niceness_of_session(), fresh, niceness_of_session(kernel.pid))
kernel.communicate()
"""


def test_a_session_yields_and_its_kernels_sessions_do_as_it_does():
    told = subprocess.run(
        [sys.executable, "-c", SERVER], capture_output=True, text=True, check=True, start_new_session=True
    )
    nicer, session, fresh, kernel = map(int, told.stdout.split())
    assert session == kernel == 7
    assert fresh == 0
    assert 0 <= nicer <= 7  # 19 is the most


def test_a_process_that_leads_no_session_leaves_that_of_others_alone():
    code = "from gpu_kernels.priority import *; yield_processors(7); print(niceness_of_session())"
    group = Path("/proc/self/autogroup").read_text()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert Path("/proc/self/autogroup").read_text() == group


def test_a_process_that_is_gone_is_no_error():
    gone = subprocess.Popen(["true"], start_new_session=True)
    gone.wait()
    _let_session_yield(gone.pid, 7)
