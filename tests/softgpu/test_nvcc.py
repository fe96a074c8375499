"""What stands before nvcc on a software GPU's PATH: PTX under a cubin's name, and nvcc for all else."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NVCC = Path(__file__).resolve().parents[2] / "remoting/native/softgpu/nvcc/nvcc"
SOURCE = 'extern "C" __global__ void fill(int* to) { *to = 7; }\n'

# Writes PTX where nvcc would, and what it was called with.
OTHER = """#!/bin/sh
printf '%s\\n' "$@" >called
output=k.ptx
while [ $# -gt 0 ]; do
  case $1 in -o | --output-file) output=$2 ;; esac
  shift
done
echo '.version 8.0' >"$output"
exit ${NVCC_RESULT:-0}
"""


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A folder with an nvcc, and a source."""
    (tmp_path / "k.cu").write_text(SOURCE)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvcc").write_text(OTHER)
    (tmp_path / "bin" / "nvcc").chmod(0o755)
    return tmp_path


def nvcc(folder: Path, *options: str, **extra: str) -> subprocess.CompletedProcess[str]:
    path = f"{NVCC.parent}:{folder / 'bin'}:/usr/bin:/bin"
    command = ["nvcc", *options]
    return subprocess.run(
        command, cwd=folder, env={"PATH": path} | extra, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("options", "output"),
    [
        (("--cubin", "-arch", "sm_75", "k.cu"), "k.cubin"),
        (("-cubin", "-arch=sm_75", "-I/some where", "k.cu", "-o", "a b.bin"), "a b.bin"),
        (("-cubin", "--output-file", "named", "k.cu"), "named"),
        (("k.cu", "-cubin", "-odir", "bin"), "bin/k.cubin"),
    ],
)
def test_machine_code_is_ptx_under_its_name(other: Path, options: tuple[str, ...], output: str):
    done = nvcc(other, *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert (other / output).read_bytes() == b".version 8.0\n\0"
    called = (other / "called").read_text().splitlines()
    assert called[: len(options)] == list(options)
    assert called[-1] == "--ptx"
    assert not (other / "k.ptx").exists()


@pytest.mark.parametrize("options", [("--version",), ("-ptx", "k.cu"), ("a b.cu", "-o", "--cubin")])
def test_all_else_is_nvccs(other: Path, options: tuple[str, ...]):
    assert nvcc(other, *options, NVCC_RESULT="3").returncode == 3
    assert (other / "called").read_text().splitlines() == list(options)


def test_an_error_of_nvccs_is_the_error(other: Path):
    assert nvcc(other, "--cubin", "k.cu", NVCC_RESULT="2").returncode == 2


def test_ptx_is_its_own_machine_code(other: Path):
    (other / "k.ptx").write_text(".version 8.1\n")
    assert nvcc(other, "--cubin", "k.ptx").returncode == 0
    assert (other / "k.cubin").read_bytes() == b".version 8.1\n\0"


def test_several_inputs_without_a_name_are_refused_in_words(other: Path):
    done = nvcc(other, "--cubin", "k.cu", "l.cu")
    assert done.returncode == 1
    assert "needs one input file" in done.stderr


def test_where_there_is_no_other_there_is_none(other: Path):
    (other / "bin" / "nvcc").unlink()
    done = nvcc(other, "--version")
    assert (done.returncode, done.stderr) == (127, "nvcc: not found\n")


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not here")
def test_nvidias_nvcc_does_it(tmp_path: Path):
    (tmp_path / "k.cu").write_text(SOURCE)
    command = ["nvcc", "--cubin", "-arch", "sm_75", "k.cu"]
    environment = os.environ | {"PATH": f"{NVCC.parent}:{os.environ['PATH']}"}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    image = (tmp_path / "k.cubin").read_bytes()
    assert b".visible .entry fill(" in image
    assert image.endswith(b"\0")
