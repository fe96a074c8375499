"""Whoever connects to the data port: those with a lease get its worker, all others a bounded refusal."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import struct

import pytest

from gpu_kernels.remoting.agent.settings import Limits
from tests.agent.lanes import connect, exchange, hello, lane, slices

MALFORMED, VERSION, UNKNOWN, OLD, ENDED, NO_WORKER, TOO_MANY = 1, 2, 3, 5, 6, 7, 8


@pytest.fixture
async def lease(controller, agent):
    granted = await controller.grant("lease-a")
    await controller.carried_out()
    return granted


async def test_a_lane_reaches_the_leases_worker(agent, lease):
    async with lane(agent.address, lease) as open_lane:
        assert await open_lane.ask("echo a line") == "a line"


async def test_all_lanes_of_a_lease_share_one_worker_and_other_leases_have_others(controller, agent, lease):
    other = await controller.grant("lease-b")
    async with (
        lane(agent.address, lease) as first,
        lane(agent.address, lease, lane=1) as second,
        lane(agent.address, other) as third,
    ):
        assert first.facts["pid"] == second.facts["pid"] != third.facts["pid"]


async def test_the_worker_gets_the_hello_without_the_secret(agent, lease):
    session = os.urandom(16)
    async with lane(agent.address, lease, lane=7, session=session) as open_lane:
        sent = hello(lease, lane=7, session=session)
        assert bytes.fromhex(open_lane.facts["hello"]) == sent[:80] + bytes(32) + sent[112:]


async def test_a_lease_that_the_agent_has_not_heard_of_is_asked_for_before_it_is_refused(controller, agent):
    await controller.next_reports()
    granted = await controller.grant("lease-late", quietly=True)  # the long poll goes on
    before = len(controller.reports)
    async with lane(agent.address, granted) as open_lane:
        assert await open_lane.ask("echo served") == "served"
    assert any(report["wait"] == 0 for report in controller.reports[before:])


@pytest.mark.parametrize(
    "changes",
    [
        {"secret": bytes(32)},
        {"lease_id": "lease-nobody-has"},
        {"lease_id": "lease-nobody-has", "secret": bytes(32)},
        {"epoch": 2, "secret": bytes(32)},
        {"epoch": 0, "secret": bytes(32)},
    ],
)
async def test_wrong_secret_and_unknown_lease_get_the_same_answer(agent, lease, changes):
    answers = [
        await exchange(agent.address, hello(lease, **changes)),
        await exchange(agent.address, hello(lease, lease_id="never-granted")),
    ]
    assert answers[0] == answers[1]
    assert answers[0][0] == UNKNOWN
    assert "restart the kernel" in answers[0][1]


async def test_another_leases_secret_opens_nothing(controller, agent, lease):
    other = await controller.grant("lease-b")
    await controller.carried_out()
    assert (await exchange(agent.address, hello(lease, secret=other.secret)))[0] == UNKNOWN


async def test_an_old_epoch_is_refused_and_says_so_to_its_owner_alone(controller, agent, lease):
    newer = await controller.grant("lease-a", epoch=2)
    await controller.carried_out()
    status, text = await exchange(agent.address, hello(lease))
    assert status == OLD
    assert "newer lease" in text
    assert (await exchange(agent.address, hello(lease, secret=bytes(32))))[0] == UNKNOWN
    assert (await exchange(agent.address, hello(newer, epoch=1)))[0] == OLD
    async with lane(agent.address, newer):
        pass


async def test_an_ended_lease_is_refused_and_says_so_to_its_owner(controller, agent, lease):
    await controller.end("lease-a")
    await controller.carried_out()
    status, text = await exchange(agent.address, hello(lease))
    assert status == ENDED
    assert "Restart the kernel" in text


async def test_a_status_query_tells_of_the_slice_without_starting_a_worker(controller, agent, lease):
    (slice_,) = await slices(agent.address, lease)
    assert slice_["name"] == "V100 (software GPU)"
    assert (slice_["total_mib"], slice_["used_mib"], slice_["utilisation"]) == (655, 0, 0)
    assert (slice_["device"], slice_["index"], slice_["compute_capability"]) == ("software", 0, "7.5")
    assert (agent.report("1").target_seq, agent.report("1").leases) == (controller.target_seq, ())


async def test_a_status_query_tells_what_the_worker_says(controller, agent, lease):
    async with lane(agent.address, lease) as open_lane:
        await open_lane.say('usage {"used_mib": 12, "peak_mib": 40, "sessions": 1, "launches": 9}')
        await open_lane.ask("echo done")
        (slice_,) = await slices(agent.address, lease)
        assert slice_["used_mib"] == 12
        await open_lane.say('usage {"used_mib": -5, "peak_mib": "x", "sessions": 1e99, "launches": true}')
        await open_lane.ask("echo done")
        (slice_,) = await slices(agent.address, lease)
        assert slice_["used_mib"] == 12


async def test_a_lease_of_two_gpus_has_two_entries(controller, agent):
    pair = await controller.grant("lease-pair", mib=100, count=2)
    entries = await slices(agent.address, pair)
    assert [entry["index"] for entry in entries] == [0, 1]
    assert len({entry["uuid"] for entry in entries}) == 2


async def test_a_status_query_needs_the_secret_too(agent, lease):
    assert (await exchange(agent.address, hello(lease, flags=1, secret=bytes(32))))[0] == UNKNOWN


GARBAGE = {
    "a web browser": (b"GET / HTTP/1.1\r\nHost: gpu\r\n\r\n", MALFORMED),
    "noise": (os.urandom(4096), MALFORMED),
    "one byte": (b"x", MALFORMED),
    "a flood": (b"\xff" * 1_000_000, MALFORMED),
    "zeros": (bytes(128), MALFORMED),
}


@pytest.mark.parametrize("name", GARBAGE)
async def test_garbage_is_refused_while_another_lease_goes_on(agent, lease, name):
    data, expected = GARBAGE[name]
    async with lane(agent.address, lease) as going_on:
        for _ in range(5):
            status, text = await exchange(agent.address, data)
            assert (status, bool(text)) == (expected, True)
            assert await going_on.ask("echo still here") == "still here"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"version": 2}, VERSION),
        ({"version": 0}, VERSION),
        ({"flags": 0x8000}, MALFORMED),
        ({"zero": b"\0" * 15 + b"\1"}, MALFORMED),
        ({"lease_id": ""}, MALFORMED),
        ({"lease_id": "a b"}, MALFORMED),
        ({"lease_id": "a\0b"}, MALFORMED),
        ({"magic": b"GPUKHELL"}, MALFORMED),
    ],
)
async def test_a_hello_that_is_not_quite_one_is_refused(agent, lease, changes, expected):
    assert (await exchange(agent.address, hello(lease, **changes)))[0] == expected


@pytest.mark.parametrize("length", [0, 1, 8, 40, 127])
async def test_a_truncated_hello_is_refused(agent, lease, length):
    status, _ = await exchange(agent.address, hello(lease)[:length], half_close=True)
    assert status == MALFORMED


async def test_a_peer_that_says_nothing_is_given_up(controller, serve, settings):
    limits = Limits(hello_bytes_within_s=1.0)
    async with serve(dataclasses.replace(settings, limits=limits)) as agent:
        lease = await controller.grant("lease-a")
        status, text = await exchange(agent.address, hello(lease)[:64])
    assert status == MALFORMED
    assert "64 of 128" in text


async def test_bytes_that_do_not_wait_for_the_answer_are_refused(agent, lease):
    status, text = await exchange(agent.address, hello(lease) + b"too early")
    assert (status, "wait" in text) == (MALFORMED, True)


async def test_idle_connections_give_way_to_those_that_speak(controller, serve, settings):
    limits = Limits(hello_bytes_within_s=60.0, pending_of_a_peer=3, pending=5)
    async with serve(dataclasses.replace(settings, limits=limits)) as agent:
        granted = await controller.grant("lease-a")
        idle = [await connect(agent.address) for _ in range(3)]
        async with lane(agent.address, granted) as open_lane:
            assert await open_lane.ask("echo let in") == "let in"
            reader, _ = idle[0]
            status, length = struct.unpack("<II", await reader.readexactly(8))
            assert (status, b"Too many" in await reader.read(length)) == (TOO_MANY, True)
            assert await reader.read() == b""
        for _, writer in idle:
            writer.close()


async def test_lanes_that_are_handed_over_count_no_longer(controller, serve, settings):
    limits = Limits(pending_of_a_peer=2, pending=2)
    async with serve(dataclasses.replace(settings, limits=limits)) as agent:
        granted = await controller.grant("lease-a")
        async with contextlib.AsyncExitStack() as stack:
            for number in range(6):
                await stack.enter_async_context(lane(agent.address, granted, lane=number))


async def test_many_lanes_open_at_once(agent, lease):
    async def one(number: int) -> str:
        async with lane(agent.address, lease, lane=number) as open_lane:
            return await open_lane.ask(f"echo {number}")

    assert await asyncio.gather(*map(one, range(40))) == [str(number) for number in range(40)]


async def test_unix_and_ipv6_addresses_serve_alike(controller, serve, settings, tmp_path):
    socket_path = tmp_path / "data.sock"
    listen = (f"unix://{socket_path}", "tcp://[::1]:0")
    async with serve(dataclasses.replace(settings, listen=listen)) as agent:
        assert agent.address == f"unix://{socket_path}"
        granted = await controller.grant("lease-a")
        async with lane(agent.address, granted) as open_lane:
            assert await open_lane.ask("echo hello") == "hello"
        port = agent._listeners[1].getsockname()[1]
        async with lane(f"tcp://[::1]:{port}", granted) as open_lane:
            assert await open_lane.ask("echo hello") == "hello"
    assert not socket_path.exists()


async def test_a_worker_that_cannot_start_is_told_to_the_user(controller, serve, settings, tmp_path):
    broken = dataclasses.replace(settings.workers, program=tmp_path / "no-such-program")
    async with serve(dataclasses.replace(settings, workers=broken)) as agent:
        granted = await controller.grant("lease-a")
        status, text = await exchange(agent.address, hello(granted))
        assert status == NO_WORKER
        assert "could not start" in text
        assert str(tmp_path) not in text


async def test_a_worker_that_dies_before_it_is_ready_is_told_to_the_user(
    controller, serve, settings, tmp_path
):
    script = tmp_path / "dies-at-once"
    script.write_text("#!/bin/sh\necho no driver here >&2\nexit 3\n")
    script.chmod(0o755)
    dying = dataclasses.replace(settings.workers, program=script)
    async with serve(dataclasses.replace(settings, workers=dying)) as agent:
        granted = await controller.grant("lease-a")
        assert (await exchange(agent.address, hello(granted)))[0] == NO_WORKER
