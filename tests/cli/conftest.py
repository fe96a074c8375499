from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpu_kernels.remoting.paths import native_build
from tests.cli.lab import COURSE, Lab, wait_until


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    built = all(path.exists() for path in native_build().all_files())
    for item in items:
        if item.get_closest_marker("native") and not built:
            item.add_marker(pytest.mark.skip(reason="the native part is not built"))


@pytest.fixture(scope="session")
def running_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    # Tests wait for the end of a lease; who renews it every two seconds may stand still for nearly four.
    lab = Lab(tmp_path_factory.mktemp("lab"), lease_ttl=6.0)
    yield lab
    lab.close()


@pytest.fixture
def lab(running_lab: Lab) -> Iterator[Lab]:
    """A pool with one V100, of which the course may hold a tenth; checked to be empty afterwards."""
    yield running_lab
    running_lab.end_started()
    running_lab.admin.set_limit(COURSE, {"V100": 100})
    wait_until(running_lab.nothing_in_use)
