from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pool.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A ledger with one agent that has one V100, and no lease left uncounted at the end."""
    rig = Rig(tmp_path / "ledger.sqlite")
    rig.agent()
    yield rig
    assert rig.mismatch() == 0
    rig.close()
