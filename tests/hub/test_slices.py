"""What the hub's admin panel is told of a server's slices."""

from __future__ import annotations

import asyncio

import pytest

from gpu_kernels.spawner import slices
from gpu_kernels.spawner.slices import ServersSlices
from tests.pool.controller import Agent, ThreadedController, reserve, token


@pytest.fixture
def controller(tmp_path):
    with ThreadedController(tmp_path / "state") as running:
        Agent(running.client("gpu-server")).register()
        yield running


def test_what_is_known_is_told_until_it_is_old(controller):
    now = [0.0]
    servers = ServersSlices(controller.url, token("panel"), clock=lambda: now[0])
    assert servers.of("ada", "") is None
    reserve(controller.client("ada"))
    servers.ask()
    assert servers.of("ada", "") == "0.02 V100 granted on gpu1 (a.ipynb)"
    assert servers.of("bob", "") == "none"
    now[0] = slices.OLD_S + 1
    assert servers.of("ada", "") is None


def test_a_controller_that_is_away_is_said_once_and_what_was_known_stays(controller, caplog):
    servers = ServersSlices(controller.url, token("panel"))
    reserve(controller.client("ada"))
    servers.ask()
    controller.stop()
    servers.ask()
    servers.ask()
    assert caplog.text.count("are not known for the admin panel") == 1
    assert servers.of("ada", "") is not None


async def test_one_question_in_a_while_is_enough(controller, monkeypatch):
    now, asked = [0.0], []
    servers = ServersSlices(controller.url, token("panel"), clock=lambda: now[0])
    monkeypatch.setattr(servers, "ask", lambda: asked.append(now[0]))
    for now[0] in (0.0, 1.0, slices.KEEP_S, slices.KEEP_S + 1):
        servers.freshen()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert len(asked) == 2


def test_a_user_with_many_slices_and_long_paths_does_not_flood_the_panel(controller):
    for number in range(slices.MOST_TOLD + 2):
        reserve(controller.client("ada"), f"{'folder/' * 30}{number}.ipynb", "0.001 V100")
    servers = ServersSlices(controller.url, token("panel"))
    servers.ask()
    told = servers.of("ada", "")
    assert told.endswith("; and 2 more")
    assert len(told) < 1500
