from __future__ import annotations

import pytest

from tests.frameworks import installed

from . import places


@pytest.fixture(scope="session")
def pytorch() -> str:
    try:
        return installed.pytorch()
    except installed.NotInstalled as error:
        pytest.skip(str(error))


@pytest.fixture(params=places.ALL)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)
