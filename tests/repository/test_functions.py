"""Functions of the native code fit a screen. Of Python's, ruff says so (``pyproject.toml``)."""

from __future__ import annotations

import lizard
import pytest

from .test_repository import ROOT, tracked_files

pytestmark = pytest.mark.quick

LINES = 60
TABLES = {
    "cudart::own_text",
    "softgpu::driver::device_attribute",
}
"""Of a line or two for each value of an enumeration: as long as that is."""
LONG = {
    "maths::cudnn::invoke_prepared": 65,
    "softgpu::lower::Selector::place_storage": 69,
    "softgpu::lower::assign_slots": 66,
    "softgpu::lower::remove_copies": 85,
}
"""How many lines these have: to be made fewer, and no more."""


def too_long() -> dict[str, int]:
    """The names of functions with more than ``LINES``, and how many they have."""
    found = {}
    for path in tracked_files():
        native = path.is_relative_to(ROOT / "remoting" / "native")
        if native and path.suffix in (".c", ".cc", ".h"):
            for function in lizard.analyze_file(str(path)).function_list:
                if function.length > LINES:
                    found[function.name] = function.length
    return found


def test_functions_of_the_native_code_fit_a_screen():
    found = {name: lines for name, lines in too_long().items() if name not in TABLES}
    assert found == LONG, f"more than {LINES} lines; split it, or lower its number in LONG where it has fewer"
