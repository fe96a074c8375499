"""The fuzzer of the worker's frames builds with any compiler, and nothing that it found has a finding."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzzing import inputs, replay
from tests.native_build import build_of_make

CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.slow
@pytest.mark.timeout(600)  # the build is made here where `make` has not made it
def test_frames_that_reach_the_most_have_no_finding(tmp_path: Path) -> None:
    native = build_of_make("fuzz_frames", "softgpu")
    environment = os.environ | {"FUZZ_DRIVER": str(native.software)}
    replay(native.folder / "tests_forwarding" / "fuzz_frames", inputs(CORPUS, tmp_path), environment)
