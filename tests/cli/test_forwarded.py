"""The whole path: a command on a leased slice, through the real client, agent, worker and software GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.cli.lab import Lab, wait_until

pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def whole_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("whole-lab"), lease_ttl=20.0, worker="gpu-worker")
    yield lab
    lab.close()


def test_check_adds_vectors_on_a_slice_of_the_pool(whole_lab: Lab):
    done = whole_lab.gpu("check", "--size", "0.02 V100")
    assert done.returncode == 0, done.stdout
    assert "V100 (software GPU), 655 MiB" in done.stdout
    wait_until(whole_lab.nothing_in_use)


def test_check_inside_a_lease_uses_that_lease(whole_lab: Lab):
    done = whole_lab.gpu("run", "-p", "0.05", "--", sys.executable, "-m", "gpu_kernels.cli", "check")
    assert done.returncode == 0, done.stdout
    assert "this kernel's slice" in done.stdout
    assert "1638 MiB" in done.stdout
    wait_until(whole_lab.nothing_in_use)
