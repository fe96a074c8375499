"""How the native part is made and loaded when something is wrong with the compiler or what it made."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from . import places

pytestmark = [pytest.mark.slow, pytest.mark.native, pytest.mark.timeout(1800)]

LOADS = """
from pathlib import Path
from gpu_kernels.pytorch import build
build.library = lambda: Path({path!r})
import torch
print(torch.zeros(0, device="cuda").is_cuda)
"""
SWITCHES_ON_TWICE = """
import torch
torch.cuda.init()
from gpu_kernels.pytorch import switch
print(switch.switch_on(), switch.switch_on(), (torch.ones(3, device="cuda") + 1).tolist())
"""
IS_UNTRIED = """
from gpu_kernels.pytorch import switch
switch.TRIED = ("1.0.0", "1.1.0")
import torch
print((torch.ones(3, device="cuda") + 1).tolist())
"""
HAS_NO_COMPILER = """
import os
os.environ["PATH"] = ""
os.environ.pop("CXX", None)
from gpu_kernels.pytorch import build
build.library = lambda: build.made(build.Path({path!r}))
import torch
print(torch.zeros(0, device="cuda").is_cuda, (torch.ones(3) + 1).tolist())
"""
COMPILES = """
from gpu_kernels.pytorch import build
build.TAKES_AT_MOST_S = 2
try:
    build.made(build.Path({path!r}))
except build.NotBuilt as error:
    print(error)
"""


@pytest.mark.parametrize("damage", [b"", b"\x7fELF no more", b"not a library at all"])
def test_a_library_that_cannot_be_loaded_leaves_pytorch_usable(
    pytorch: str, tmp_path: Path, damage: bytes
) -> None:
    library = tmp_path / "damaged.so"
    library.write_bytes(damage)
    done = places.run(pytorch, "straight", "-c", LOADS.format(path=str(library)))
    assert done.stdout == "True\n", done.stderr
    assert "PyTorch's operators do not run on this software GPU" in done.stderr
    assert f"{library} cannot be loaded" in done.stderr


def test_switching_on_again_changes_nothing(pytorch: str, place: str) -> None:
    done = places.run(pytorch, place, "-c", SWITCHES_ON_TWICE)
    assert done.stdout == "[] [] [2.0, 2.0, 2.0]\n", done.stderr


def test_a_release_that_was_not_tried_works_and_one_line_says_so(pytorch: str, place: str) -> None:
    done = places.run(pytorch, place, "-c", IS_UNTRIED)
    assert done.stdout == "[2.0, 2.0, 2.0]\n", done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "was not tried" in line]
    assert "1.0.0 and 1.1.0 were: what is wrong may be ours" in line


def test_without_a_compiler_one_line_says_what_to_install(pytorch: str, tmp_path: Path) -> None:
    program = HAS_NO_COMPILER.format(path=str(tmp_path / "made.so"))
    done = places.run(pytorch, "straight", "-c", program)
    assert done.stdout == "True [2.0, 2.0, 2.0]\n", done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "C++ compiler" in line]
    assert "apt install g++" in line
    assert list(tmp_path.iterdir()) == []


def test_no_compiler_outlives_a_build_that_took_too_long(pytorch: str, tmp_path: Path) -> None:
    compiler, started = tmp_path / "compiler", tmp_path / "started"
    # Its child holds the pipe too, which is read to its end.
    compiler.write_text(f'#!/bin/sh\necho $$ >> "{started}"\nsleep 3600\n')
    compiler.chmod(0o755)
    done = subprocess.run(
        [pytorch, "-c", COMPILES.format(path=str(tmp_path / "made.so"))],
        env=os.environ | {"CXX": str(compiler)},
        capture_output=True,
        text=True,
        timeout=places.ENDS_WITHIN_S,
    )
    assert "did not end within 2 s" in done.stdout, done.stderr
    pids = started.read_text().split()
    assert pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "compiler", "started"]
