"""The fuzzers build with any compiler, and nothing that they start from or found has a finding."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.fuzzing import inputs, replay
from tests.native_build import built

HERE = Path(__file__).parent


@pytest.mark.timeout(600)  # the build is made here where `make` has not made it
@pytest.mark.parametrize(("fuzzer", "corpus"), [("fuzz_ptx", "corpus"), ("fuzz_image", "images")])
def test_a_fuzzers_inputs_have_no_finding(fuzzer: str, corpus: str, tmp_path: Path) -> None:
    replay(built(fuzzer) / "softgpu" / fuzzer, inputs(HERE / corpus, tmp_path))


def test_an_input_that_is_not_there_is_named(tmp_path: Path) -> None:
    program = built("fuzz_ptx") / "softgpu" / "fuzz_ptx"
    done = subprocess.run([program, tmp_path / "none"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"{tmp_path / 'none'} cannot be read" in done.stderr
