from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.pool.controller import Agent, ThreadedController
from tests.pool.rig import Rig
from tests.pool.school import School
from tests.pool.stores.postgresql import postgresql_server, postgresql_url

__all__ = ["postgresql_server", "postgresql_url"]


@pytest.fixture(autouse=True)
def patient_httpx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who says no time waits for longer than a machine may stand still."""
    for wait in ("connect", "read", "write", "pool"):
        monkeypatch.setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, wait, 60.0)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A ledger with one agent that has one V100, and no lease left uncounted at the end."""
    rig = Rig(tmp_path / "ledger.sqlite")
    rig.agent()
    yield rig
    assert rig.mismatch() == 0
    rig.close()


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[ThreadedController]:
    """A controller that knows ``controller.TOKENS`` and ``controller.COURSES``, and has no GPU yet."""
    with ThreadedController(tmp_path / "state") as controller:
        yield controller


@pytest.fixture
def agent(controller: ThreadedController) -> Agent:
    """One GPU server with one V100."""
    agent = Agent(controller.client("gpu-server"))
    agent.register()
    return agent


@pytest.fixture
def school() -> School:
    """A course's term on virtual time, with one server."""
    school = School()
    school.server()
    return school
