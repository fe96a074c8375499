"""A device without a driver over it, for tests of the engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.softgpu.bench import Device


@pytest.fixture(scope="session")
def device() -> Iterator[Device]:
    made = Device(mib=512, threads=2)
    yield made
    made.close()
