"""The guides about frameworks, typed in as they stand, with the environments of ``make frameworks``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.lab import Lab
from tests.docs.documents import ROOT, blocks, code
from tests.docs.test_guides import shell
from tests.notebooks.test_frameworks import python_with

HOW_TO = ROOT / "docs" / "how-to"
OFFER = HOW_TO / "offer-kernels.md"
ENDS_WITHIN_S = 1200

pytestmark = [pytest.mark.native, pytest.mark.slow, pytest.mark.timeout(3600)]


def typed(text: str, folder: Path) -> str:
    process = shell(text, folder)
    output, _ = process.communicate(timeout=ENDS_WITHIN_S)
    assert process.returncode == 0, output
    return str(output)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    made = Lab(tmp_path_factory.mktemp("lab"), 300.0, worker="gpu-worker")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("guide", "environment", "program", "says"),
    [
        ("teach-with-pytorch.md", "PyTorch", "digits.py", "learned: True on"),
        ("teach-with-keras.md", "Keras", "train.py", "learned: True on 1 GPU"),
        ("teach-with-jax.md", "JAX", "train.py", "learned: True on gpu"),
    ],
)
def test_a_guides_program_learns_straight_and_on_a_slice(guide, environment, program, says, lab, tmp_path):
    python = python_with(environment)
    (tmp_path / program).write_text("\n".join(code(HOW_TO / guide, "python")))
    straight, leased = blocks(HOW_TO / guide)[0].replace("-- python", f"-- {python}").splitlines()
    assert says in typed(straight, tmp_path)
    pool = f"export GPU_KERNELS_CONTROLLER={lab.url} GPU_KERNELS_TOKEN=ada-token"
    assert says in typed(f"{pool}\n{leased}", tmp_path)


def test_kernels_of_an_environment_are_made_as_the_guide_says(tmp_path):
    python = python_with("PyTorch")
    (made,) = [block for block in blocks(OFFER) if "--with PyTorch" in block]
    venv, pip, *ours = made.splitlines()
    assert venv.startswith("python3 -m venv")
    assert "pip install" in pip
    commands = "\n".join(ours).replace("/opt/pytorch/bin/python", python)
    said = typed(commands.replace("--sys-prefix", f"--prefix {tmp_path}"), tmp_path)
    assert "Python 3 with PyTorch (0.02 V100)" in said
    for line in code(OFFER, "text")[0].splitlines():
        assert line.replace("/opt/pytorch/bin/python", python) in said
