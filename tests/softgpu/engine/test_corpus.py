"""The fuzzer's starting texts link, so that what it changes in them reaches the lowering and the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.softgpu.bench import Device

TEXTS = sorted((Path(__file__).parent.parent / "corpus").glob("*.ptx"))


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_a_starting_text_links(device: Device, text: Path) -> None:
    device.load(text.read_bytes(), allow_undefined=True)
