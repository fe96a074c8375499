"""The program that loads all kernels of fat binaries, on a file that is made here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forwarding.refused_cases import BAD, GOOD, HEAD
from tests.softgpu.driver.test_images import LZ4, ONLY_ARCH, ZSTD, entry, fatbin, lz4, zstd

OTHER = GOOD.replace("good", "other")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Five fat binaries between other bytes: of six kernels four load; one has no PTX for anybody."""
    mixed, bad = ("\n" + HEAD + GOOD + BAD).encode(), ("\n" + HEAD + BAD).encode()
    images = [
        fatbin(entry(b"\x7fELF", kind=2), entry(mixed, arch=120), entry((HEAD + GOOD).encode(), arch=90)),
        fatbin(entry(lz4(mixed), arch=90, flags=LZ4, plain=len(mixed) + 4)),
        fatbin(
            entry(zstd((HEAD + GOOD + OTHER).encode()), arch=90, flags=ZSTD, plain=len(HEAD + GOOD + OTHER))
        ),
        fatbin(entry(lz4(bad), arch=90, flags=LZ4, plain=len(bad) + 4)),
        fatbin(entry((HEAD + BAD).encode(), arch=90, flags=ONLY_ARCH)),
    ]
    path = tmp_path / "library.so"
    path.write_bytes(b"\x7fELF" + b"\x50\xed\x55\xba\x01\x00 no fatbin".join([b"", *images, b"", b"end"]))
    return path


@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_all_kernels_are_counted_and_the_refused_named(library: Path, place: str) -> None:
    command = [sys.executable, "-m", "tests.conformance.fatbins", "--place", place, library]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1, done.stderr
    first, refused, last = done.stdout.splitlines()
    assert first.startswith("library.so: 4 of 6 kernels load, 5 fat binaries (1 without PTX), ")
    assert "refused 2: unsupported instruction multimem.ld_reduce.weak.global.add.f32" in refused
    assert refused.endswith(": bad, _Z3badPf")
    assert re.fullmatch(rf"{place}: at most [1-9]\d* MiB of host memory", last)


def test_a_file_whose_kernels_all_load_is_a_success(tmp_path: Path) -> None:
    path = tmp_path / "library.so"
    path.write_bytes(fatbin(entry((HEAD + GOOD).encode(), arch=90)))
    command = [sys.executable, "-m", "tests.conformance.fatbins", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout.split(",")[0]) == (0, "library.so: 1 of 1 kernels load")
