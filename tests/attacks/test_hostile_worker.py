"""A worker under a stranger's control hurts its own lease, and no more."""

from __future__ import annotations

import dataclasses
import logging
import sys
from pathlib import Path

import pytest

from tests.agent.conftest import controller, echo_worker, gone, inventory, serve, settings
from tests.agent.lanes import lane, slices

__all__ = ["controller", "echo_worker", "inventory", "serve", "settings"]


@pytest.fixture
def hostile(settings, tmp_path):
    script = tmp_path / "hostile-worker"
    program = Path(__file__).with_name("hostile_worker.py")
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -I {program} "$@"\n')
    script.chmod(0o755)
    return dataclasses.replace(settings, workers=dataclasses.replace(settings.workers, program=script))


@pytest.mark.parametrize("way", ["closes its control socket", "sends an empty packet"])
async def test_a_worker_that_cannot_be_spoken_to_any_more_is_replaced(controller, serve, hostile, way):
    async with serve(hostile) as agent:
        lease = await controller.grant("lease-a")
        async with lane(agent.address, lease) as first:
            await first.say(way)
            await first.ended()
        await gone(first.facts["pid"])
        async with lane(agent.address, lease) as second:
            assert second.facts["pid"] != first.facts["pid"]


@pytest.mark.parametrize(
    "packet",
    [
        "[" * 4000,
        '{"used_mib":' * 300,
        '{"fault":' + "[" * 900 + "]" * 900 + "}",
        '{"used_mib": 1e999, "sessions": true, "launches": -1, "peak_mib": ' + "9" * 3000 + "}",
        '{"used_mib": {"a": 1}, "busy_us": "1"}',
        "null",
        "NaN",
        "\x00\x1b[2J",
    ],
)
async def test_what_a_worker_says_is_bounded_in_the_log(controller, serve, hostile, packet, caplog):
    caplog.set_level(logging.INFO)
    async with serve(hostile) as agent:
        lease = await controller.grant("lease-a")
        async with lane(agent.address, lease) as speaking:
            for _ in range(60):
                assert await speaking.ask(f"says: {packet}") == "done"
            (slice_,) = await slices(agent.address, lease)
            assert slice_["used_mib"] == 0
            (entry,) = agent.report("1").leases
            assert (entry.used_mib, entry.sessions, entry.launches) == (0, 0, 0)
    records = [record for record in caplog.records if record.name == "tests.agent"]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(records) < 60
    assert all(len(record.getMessage()) < 1000 for record in records)
