"""Two students train at once in slices of one software GPU: each as if it were alone."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from gpu_kernels import __version__
from gpu_kernels.remoting.agent.gpus import software_gpus
from gpu_kernels.remoting.environment import client_environment, without_gpu
from tests.conformance.one_agent import OneAgent

PROGRAM = Path(__file__).parent / "programs" / "neighbours.py"
MEMORY_MIB = 655
ENDS_WITHIN_S = 1500

pytestmark = [pytest.mark.slow, pytest.mark.native, pytest.mark.timeout(1800)]


def test_each_has_the_cpus_losses_its_own_bound_and_nothing_of_the_other(
    pytorch: str, tmp_path: Path
) -> None:
    def start(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
        environment = environment | {"OMP_NUM_THREADS": "1"}
        command = [pytorch, str(PROGRAM), *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)

    def said(process: subprocess.Popen[str]) -> dict[str, object]:
        out, err = process.communicate(timeout=ENDS_WITHIN_S)
        assert process.returncode == 0, err
        return json.loads(out)

    gpu = software_gpus("gpu-server-1", "V100", 2 * MEMORY_MIB, 1, __version__)
    # The path of a unix socket is short: not under pytest's temporary folders.
    with (
        tempfile.TemporaryDirectory(prefix="gk-") as folder,
        OneAgent(Path(folder), gpu) as agent,
        agent.lease(MEMORY_MIB, 500) as one,
        agent.lease(MEMORY_MIB, 500) as two,
    ):
        ada = start(client_environment(one, os.environ), "ada", "bob", str(tmp_path))
        bob = start(client_environment(two, os.environ), "bob", "ada", str(tmp_path))
        seen = {"ada": said(ada), "bob": said(bob)}
    for name, here in seen.items():
        alone = said(start(without_gpu(os.environ), name))
        assert here["losses"] == pytest.approx(alone["losses"], rel=1e-4, abs=1e-4)
        assert here["intact"], "what it wrote was still there when the other's slice was full"
        assert here["total_mib"] <= MEMORY_MIB
        assert MEMORY_MIB / 2 < here["held_mib"] <= MEMORY_MIB
        assert here["of the other"] == 0
