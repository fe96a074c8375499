"""Where the libraries are tried: on the software GPU, straight and forwarded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.places import PLACES
from tests.native_build import python_path


@pytest.fixture(scope="module", params=["straight", "forwarded"])
def environment(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    with PLACES[request.param](1) as process, process() as env:
        yield env | {"PYTHONPATH": python_path()}
