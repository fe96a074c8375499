"""The fuzzers build with whatever compiler there is, and what they start from has no finding."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.softgpu.native import built

HERE = Path(__file__).parent


@pytest.mark.timeout(600)  # the build is made here where `make` has not made it
@pytest.mark.parametrize(("fuzzer", "corpus"), [("fuzz_ptx", "corpus"), ("fuzz_image", "images")])
def test_a_fuzzer_runs_on_what_it_starts_from(fuzzer: str, corpus: str) -> None:
    inputs = sorted(path for path in (HERE / corpus).iterdir() if path.suffix != ".dict")
    program = built(fuzzer) / "softgpu" / fuzzer
    done = subprocess.run([program, *inputs], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == f"{len(inputs)} inputs\n"


def test_an_input_that_is_not_there_is_named(tmp_path: Path) -> None:
    program = built("fuzz_ptx") / "softgpu" / "fuzz_ptx"
    done = subprocess.run([program, tmp_path / "none"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"{tmp_path / 'none'} cannot be read" in done.stderr
