"""The native parts that need no connection, one case of a file with CASEs each."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.native_build import Build

SOURCES = sorted((Path(__file__).parent / "native").glob("*_tests.cc"))
CASES = [
    case for source in SOURCES for case in re.findall(r"^CASE\((\w+)\)", source.read_text(), re.MULTILINE)
]


@pytest.mark.parametrize("case", CASES)
def test_part(case: str, native: Build) -> None:
    done = subprocess.run(
        [native.folder / "tests_forwarding/forwarding_unit_tests", case], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
