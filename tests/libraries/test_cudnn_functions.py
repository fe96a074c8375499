"""What frameworks call of cuDNN: the table of the design page, the lists and the library agree."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path

import pytest

from gpu_kernels.remoting.paths import native_build
from tests.frameworks.recorder import PROGRAMS, listed
from tests.native_build import ROOT

PAGE = ROOT / "docs" / "design" / "libraries.md"
LIBRARY = native_build({}).libraries / "libcudnn.so.9"


def called() -> set[str]:
    imported = Path(__file__).with_name("cudnn_pytorch.txt").read_text().split()
    seen = (call.split() for framework in PROGRAMS for call in listed(framework))
    return {*imported, *(name for library, name in seen if library == "libcudnn")}


def expanded(pattern: str) -> list[str]:
    """``a{b,c}d`` is abd and acd."""
    parts = re.split(r"\{([^}]*)\}", pattern)
    choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
    return ["".join(each) for each in itertools.product(*choices)]


def table() -> dict[str, str]:
    """What the page says of each function."""
    section = PAGE.read_text().split("### What frameworks call of it\n")[1].split("\n#")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    said = [
        (name, answer.strip())
        for row, answer in rows
        for p in re.findall(r"`([^`]+)`", row)
        for name in expanded(p)
    ]
    assert len(said) == len({name for name, _ in said}), "a function in two rows"
    return dict(said)


def test_the_page_names_each_function_that_a_framework_calls() -> None:
    assert set(table()) == called()


@pytest.mark.native
def test_what_the_page_calls_done_is_no_refusal() -> None:
    """A function that nothing defines is a weak one, which refuses."""
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True
    )
    kinds = {
        name.split("@")[0]: kind for _, kind, name in (line.split() for line in listing.stdout.splitlines())
    }
    answers = {"T": "done", "W": "refused"}
    assert {name: answers[kinds[name]] for name in table()} == table()
    assert answers[kinds["cudnnMultiHeadAttnForward"]] == "refused"
