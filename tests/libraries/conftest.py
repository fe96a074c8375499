"""Where the libraries are tried: on the software GPU, straight and forwarded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.libraries.programs import slice_at


@pytest.fixture(scope="module", params=["straight", "forwarded"])
def environment(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    with slice_at(request.param) as environment:
        yield environment
