"""The native parts that need no connection: ctest has a test for each CASE in native/*_tests.cc."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from tests.native_build import Build

SOURCES = sorted((Path(__file__).parent / "native").glob("*_tests.cc"))
CTEST = Path(sys.executable).parent / "ctest"


def test_every_part_does_what_its_cases_say(native: Build, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    command = [CTEST, "--test-dir", native.folder, "-L", "forwarding", "-j2", "--output-on-failure"]
    done = subprocess.run([*command, "--output-junit", report], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-8000:]
    ran = {case.get("name") for case in ElementTree.parse(report).iter("testcase")}
    written = re.findall(r"^CASE\((\w+)\)", "".join(source.read_text() for source in SOURCES), re.MULTILINE)
    assert len(written) > 30
    assert ran == set(written)
