from __future__ import annotations

import pytest

from . import places


@pytest.fixture(scope="session")
def pytorch() -> str:
    return places.pytorch()


@pytest.fixture(params=["straight", "forwarded"])
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)
