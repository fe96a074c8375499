from __future__ import annotations

import pytest

from tests.frameworks import installed


@pytest.fixture(scope="session")
def pytorch() -> str:
    try:
        return installed.pytorch()
    except installed.NotInstalled as error:
        pytest.skip(str(error))


@pytest.fixture(params=["straight", "forwarded"])
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)
