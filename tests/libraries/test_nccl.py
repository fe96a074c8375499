"""libnccl.so.2 of our own: one rank's collectives are copies in its stream, straight and forwarded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_kernels.remoting.paths import native_build
from tests.libraries.programs import slice_at

PROGRAM = Path(__file__).parent / "collectives.py"
pytestmark = [pytest.mark.native, pytest.mark.timeout(300)]


@pytest.mark.parametrize("place", ["straight", "forwarded"])
def test_one_rank_has_what_it_sends_and_more_are_refused(place: str) -> None:
    library = native_build().libraries / "libnccl.so.2"
    with slice_at(place) as environment:
        done = subprocess.run(
            [sys.executable, PROGRAM, library],
            env=environment,
            capture_output=True,
            text=True,
            timeout=200,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    refused = found.pop("refused")
    assert refused.pop("outside") in (0, 1), "at once, or at the next wait"
    assert refused == {"two ranks": 5, "alone": 5, "type": 4, "operation": 4, "root": 4, "bytes": 4}
    assert all(found.pop("copied").values())
    assert found == {
        "count and rank": [1, 0],
        "in place": True,
        "sent": [[0] * 5, True, True],
        "ended": [0, 4, 4],
    }
    assert done.stderr.count("NCCL has one rank here") == 1
