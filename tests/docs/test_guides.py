"""The guides, typed in as they stand: only ports are other ones, so that tests can run beside a real pool."""

from __future__ import annotations

import datetime
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpu_kernels.spawner.ports import free_port
from tests.docs.documents import ROOT, blocks
from tests.pool.clock import noon_zone
from tests.pool.stores.postgresql import running_server

HOW_TO = ROOT / "docs" / "how-to"
PROGRAM = """
import numpy as np
from numba import cuda

@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]

a = np.arange(1000, dtype=np.float32)
out = np.empty_like(a)
add[4, 256](a, a, out)
assert np.array_equal(out, a + a)
print("added on", cuda.get_current_device().name)
"""
pytestmark = [
    pytest.mark.native,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not (ROOT / "remoting/lib/bin/gpu-worker").exists(), reason="no native build"),
]


def shell(text: str, folder: Path, **options: object) -> subprocess.Popen[str]:
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("GPU_KERNELS_", "JUPYTERHUB_"))},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
        # Where an agent keeps what outlives it: not in the home of whoever runs the tests.
        "XDG_STATE_HOME": str(folder / "state-home"),
    }
    return subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        **options,
    )


def typed(text: str, folder: Path) -> str:
    process = shell(text, folder)
    output, _ = process.communicate(timeout=100)
    assert process.returncode == 0, output
    return output


@contextmanager
def running(text: str, folder: Path) -> Iterator[None]:
    """A service of the guide, in the background until the end of the test."""
    process = shell(text if text.startswith(("GPU_", "export ")) else f"exec {text}", folder)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def once_it_listens(port: str, text: str) -> str:
    """What is typed when somebody listens at the port; the guide's reader has started that before."""
    return f"export WAITS=1; until (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>&-; do sleep 0.2; done\n{text}"


def wait_until_it_says(text: str, command: str, folder: Path) -> None:
    end = time.monotonic() + 100
    while True:
        process = shell(command, folder)
        output, _ = process.communicate(timeout=100)
        if process.returncode == 0 and text in output:
            return
        assert time.monotonic() < end, output
        time.sleep(0.2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "vector_add.py").write_text(PROGRAM)
    return tmp_path


def test_a_program_runs_on_a_software_gpu(folder):
    straight, *_ = blocks(HOW_TO / "run-a-program.md")
    assert "added on Software GPU" in typed(straight, folder)


def test_a_pool_without_a_hub(folder):
    port = str(free_port())
    tokens, controller, agent, use = (
        block.strip().replace("8250", port) for block in blocks(HOW_TO / "set-up-a-pool-without-a-hub.md")
    )
    typed(tokens, folder)
    first_line = use.splitlines()[0]
    with running(controller, folder):
        wait_until_it_says("ml101", f"{first_line}\njupyter gpu course ml101", folder)
        with running(agent, folder):
            wait_until_it_says("V100 (software GPU)", f"{first_line}\njupyter gpu status", folder)
            output = typed(use, folder)
            assert re.search(r"added on .*software GPU", output, re.I)
            program = blocks(HOW_TO / "run-a-program.md")[1].replace("8250", port)
            program = program.replace("GPU_KERNELS_TOKEN=...", "GPU_KERNELS_TOKEN=$(cat ana.token)")
            assert "added on" in typed(program, folder)
            wait_until_it_says("0 V100", f"{first_line}\njupyter gpu course ml101", folder)


def test_quotas(folder):
    port = str(free_port())
    tokens, controller, agent, use = (
        block.strip().replace("8250", port) for block in blocks(HOW_TO / "set-up-a-pool-without-a-hub.md")
    )
    make, look, leave = (block.strip() for block in blocks(HOW_TO / "set-quotas.md"))
    typed(tokens.replace(" ana ", " ana --scope custom:gpu:use --scope custom:gpu:admin:quota "), folder)
    export = use.splitlines()[0]
    with running(controller, folder), running(once_it_listens(port, agent), folder):
        wait_until_it_says("V100 (software GPU)", f"{export}\njupyter gpu status", folder)
        typed(f"{export}\n{make}", folder)
        tree = typed(f"{export}\n{look}", folder)
        assert re.search(r"science +faculty +0 V100 +0.6 V100 +0.8 V100", tree)
        assert "ml101: own rules: max_leases 2, hours_per_week 40" in tree
        assert "ml101: from above: longest_life 12 h, idle 30 min" in tree
        assert "max_leases" not in typed(f"{export}\n{leave}", folder)


def test_a_class_hour(folder):
    port = str(free_port())
    tokens, controller, agent, use = (
        block.strip().replace("8250", port) for block in blocks(HOW_TO / "set-up-a-pool-without-a-hub.md")
    )
    add, look, cancel = (block.strip() for block in blocks(HOW_TO / "reserve-a-class-hour.md"))
    typed(tokens.replace(" ana ", " ana --group ml101-instructors "), folder)
    export = use.splitlines()[0]
    until = datetime.date.today() + datetime.timedelta(days=60)
    with running(controller, folder), running(once_it_listens(port, agent), folder):
        wait_until_it_says("ml101", f"{export}\njupyter gpu course ml101", folder)
        wait_until_it_says("V100 (software GPU)", f"{export}\njupyter gpu status", folder)
        # Where it is noon now, no meeting of those days at ten is about to begin, or has begun.
        made = typed(f"{export}\n{add.replace('2027-07-15', until.isoformat())} --zone {noon_zone()}", folder)
        assert "30 of 0.02 V100" in made
        assert "Mon, Thu 10:00, 90 min" in made
        assert made.rstrip().endswith("30 planned")
        class_hour = made.splitlines()[1].split()[0]
        assert f'"id": "{class_hour}"' in typed(f"{export}\n{look}", folder)
        cancelled = typed(f"{export}\n{cancel.replace('4f0c9a1b2d3e4f50', class_hour)}", folder)
        assert "cancelled" in cancelled


def test_two_controllers(folder):
    tokens, *_ = blocks(HOW_TO / "set-up-a-pool-without-a-hub.md")
    first, second = str(free_port()), str(free_port())
    folders, active, standby, use = (
        block.strip().replace("8250", first).replace("8251", second)
        for block in blocks(HOW_TO / "run-two-controllers.md")
    )
    typed(tokens, folder)
    typed(folders, folder)
    export = use.splitlines()[0]
    health = f"""python -c "from httpx import get; print(get('http://127.0.0.1:{second}/health').json())" """
    with running(active, folder):
        wait_until_it_says("ml101", f"{export}\njupyter gpu course ml101", folder)
        with running(standby, folder):
            wait_until_it_says("'role': 'standby'", health, folder)
            typed(use, folder)
    with running(standby, folder):
        wait_until_it_says("'role': 'active'", health, folder)
        assert "ml101" in typed(f"{export}\njupyter gpu course ml101", folder)


def test_a_ledger_in_postgresql(folder, monkeypatch):
    port = str(free_port())
    with running_server(fsync=False) as server:
        monkeypatch.setenv("PATH", f"{server.binaries}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("PGHOST", str(server.folder))
        monkeypatch.setenv("PGUSER", "postgres")
        tokens, sqlite, _, use = blocks(HOW_TO / "set-up-a-pool-without-a-hub.md")
        database, controller, move = (
            block.strip().replace("8250", port).replace("/var/run/postgresql", str(server.folder))
            for block in blocks(HOW_TO / "use-postgresql.md")
        )
        ask = f"{use.splitlines()[0]}\njupyter gpu course ml101".replace("8250", port)
        typed(tokens, folder)
        typed(database, folder)
        with running(sqlite.strip().replace("8250", port), folder):
            wait_until_it_says("ml101", ask, folder)
        assert "rows copied" in typed(move, folder)
        with running(controller, folder):
            wait_until_it_says("ml101", ask, folder)
