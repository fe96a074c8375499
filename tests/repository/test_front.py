"""One front: what the driver API means is written once, for the client and the software GPU."""

from __future__ import annotations

import re

import pytest

from tests.repository.test_repository import ROOT

pytestmark = pytest.mark.quick

NATIVE = ROOT / "remoting/native"
IN_BOTH = 22
"""Functions of the driver API that are written by hand in both backends. The number goes down with each topic
that moves into the front (docs/design/front.md), and never up."""


def exported(folder: str) -> set[str]:
    definition = re.compile(r"^CUresult (cu\w+)\(", re.MULTILINE)
    return {name for path in (NATIVE / folder).glob("*.cc") for name in definition.findall(path.read_text())}


def test_no_more_functions_are_written_in_both_backends_than_before():
    both = exported("client") & exported("softgpu/driver")
    print(f"functions written by hand in both backends: {len(both)}")
    assert len(both) == IN_BOTH, (
        f"{len(both)} functions are in both; lower IN_BOTH, or write the new one once"
    )


def test_what_the_front_has_is_written_nowhere_else():
    front = exported("front") | exported("graphs")
    assert front
    assert not front & (exported("client") | exported("softgpu/driver"))
