"""The stand-in for ptxas hands PTX through, as Triton and other programs call it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.native_build import ROOT

PTXAS = ROOT / "remoting" / "native" / "softgpu" / "ptxas" / "ptxas"
PTX = b".version 8.7\n.target sm_75\n.address_size 64\n"


def ptxas(*arguments: str | Path, **more: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([PTXAS, *arguments], capture_output=True, **more)


@pytest.mark.parametrize(
    "options",
    [
        ["-lineinfo", "-v", "--regAllocOptLevel=2", "--gpu-name=sm_75"],
        ["-g", "--fmad=false", "-v", "--opt-level", "0", "--gpu-name=sm_90a"],
        ["-arch", "sm_75", "-O", "3", "-maxrregcount", "32"],
        ["-O3", "-arch=sm_75", "-c"],
    ],
)
def test_the_output_is_the_input_as_a_text_for_memory(tmp_path: Path, options: list[str]) -> None:
    source, made = tmp_path / "a kernel.ptx", tmp_path / "made.o"
    source.write_bytes(PTX)
    done = ptxas(*options, source, "-o", made)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert made.read_bytes() == PTX + b"\0"


def test_the_version_reads_as_nvidias_does() -> None:
    done = ptxas("--version")
    assert re.search(rb".*release (\d+\.\d+).*", done.stdout)


def test_standard_input_is_read_where_it_is_named(tmp_path: Path) -> None:
    assert ptxas("-arch=sm_75", "-", f"--output-file={tmp_path / 'made'}", input=PTX).returncode == 0
    assert (tmp_path / "made").read_bytes() == PTX + b"\0"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], b"no input file"),
        (["/no/such.ptx"], b"'/no/such.ptx' cannot be read"),
        (["a.ptx", "b.ptx"], b"more than one input"),
        (["a.ptx", "-o"], b"option '-o' has no value"),
    ],
)
def test_a_call_that_cannot_be_obeyed_is_refused(arguments: list[str], said: bytes) -> None:
    done = ptxas(*arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(b"ptxas fatal")
    assert said in done.stderr
