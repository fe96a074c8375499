"""The Tab key after ``%gpu``."""

from __future__ import annotations

import pytest
from IPython.core.completer import provisionalcompleter

from gpu_kernels.magics import completion

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def sizes(monkeypatch):
    monkeypatch.setattr(completion, "_known", (float("inf"), ("0.02 V100", "0.1 V100", "1 A100")))
    monkeypatch.setenv("GPU_KERNELS_SIZE", "0.02 V100")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%gpu ", ["attach", "release", "smi", "status", "usage", "wait", "--help"]),
        ("%gpu re", ["release"]),
        ("%gpu attach ", ["0.02", "0.1", "1 A100", "--help", "--timeout"]),
        ("%gpu attach 0.1", ["0.1"]),
        ("%gpu wait --t", ["--timeout"]),
        ("%%gpu ", ["0.02", "0.1", "1 A100", "--help", "--timeout"]),
        ("%gpu no ", []),
        ("", []),
    ],
)
def test_words_that_may_come_next_are_offered(line, expected):
    assert completion.matches(line) == expected


def test_ipython_offers_them(shell):
    with provisionalcompleter():
        offered = [each.text for each in shell.Completer.completions("%gpu re", 7)]
    assert "release" in offered


def test_a_pool_that_cannot_be_asked_offers_no_sizes(monkeypatch):
    monkeypatch.setattr(completion, "_known", None)
    monkeypatch.setenv("GPU_KERNELS_CONTROLLER", "")
    assert completion.matches("%gpu attach ") == ["--help", "--timeout"]
