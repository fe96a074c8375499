"""``nvidia-smi`` typed under a lease: the command that is on the process's PATH, of the slice."""

from __future__ import annotations

import os
import subprocess
import sys

from .conftest import Way
from .test_nvml_monitors import USER

QUERY = ("--query-gpu=name,memory.total,memory.used", "--format=csv,noheader,nounits")


def smi(way: Way, *arguments: str) -> str:
    """As a shell finds it: by the PATH of the process's environment."""
    command = ["/bin/sh", "-c", 'nvidia-smi "$@"', "sh", *arguments]
    return subprocess.check_output(command, env=way.environment, text=True, timeout=100).strip()


def test_the_slice_is_shown_with_what_a_program_uses_of_it(forwarded: Way) -> None:
    with forwarded.start(USER) as process:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        while int(smi(forwarded, *QUERY).splitlines()[0].split(", ")[2]) < 300:
            pass
        used, idle = smi(forwarded, *QUERY).splitlines()
        assert used.startswith("V100 (software GPU), 2048, 30")
        assert idle == "V100 (software GPU), 2048, 0"
        pid, mib = smi(forwarded, "--query-compute-apps=pid,used_memory", "--format=csv,noheader").split(", ")
        assert int(pid) == process.pid
        assert mib.endswith(" MiB")
        table = smi(forwarded)
        assert "A slice of a GPU" in table
        assert os.path.basename(sys.executable) in table or str(process.pid) in table
        process.communicate("")


def test_a_file_of_the_students_beside_the_notebook_is_not_taken_for_a_module(
    forwarded: Way, tmp_path, monkeypatch
) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('not the one that is meant')")
    monkeypatch.chdir(tmp_path)
    assert smi(forwarded, "-L").startswith("GPU 0: V100 (software GPU) (UUID: GPU-")
