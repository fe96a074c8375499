"""A device without a driver over it, for tests of the engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.native_build import built
from tests.softgpu.bench import Device


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds before the first test starts: a build from nothing takes longer than a test may."""
    wanted = any("device" in getattr(item, "fixturenames", ()) for item in session.items)
    if wanted and not session.config.option.collectonly:
        built("softgpu_bench")


@pytest.fixture(scope="session")
def device() -> Iterator[Device]:
    made = Device(mib=512, threads=2)
    yield made
    made.close()
