"""The passage: a client on the worker's host gets one end of a socket, the worker the other."""

from __future__ import annotations

import dataclasses
import json
import os
import socket

from gpu_kernels.remoting.agent import slice_file, worker
from tests.agent.lanes import hello
from tests.agent.test_slice_file import OK, UNKNOWN, ask, collect, is_closed

PASSAGE = 4
FLAGS, SECRET = slice(10, 12), slice(80, 112)


def told(descriptor: int | None) -> bytes:
    """The Hello that the worker at the other end got."""
    assert descriptor is not None
    with socket.socket(fileno=descriptor) as passage:
        assert (passage.family, passage.type) == (socket.AF_UNIX, socket.SOCK_SEQPACKET)
        passage.settimeout(60)
        data = b""
        while not data.endswith(b"\n"):
            data += passage.recv(1 << 16)
        return bytes.fromhex(json.loads(data)["hello"])


async def test_over_a_unix_socket_it_comes_with_the_answer(controller, serve, settings, tmp_path):
    with_socket = dataclasses.replace(settings, listen=(f"unix://{tmp_path / 'port'}",))
    async with serve(with_socket) as agent:
        lease = await controller.grant("lease-a", mib=48)
        await controller.carried_out()
        status, text, passage = await ask(agent.address, hello(lease, flags=PASSAGE))
        assert (status, text) == (OK, "")
        heard = told(passage)
        assert heard[FLAGS] == bytes([PASSAGE, 0])
        assert heard[SECRET] == bytes(32)
        status, _, nothing = await ask(agent.address, hello(lease, flags=PASSAGE, secret=bytes(32)))
        assert (status, nothing) == (UNKNOWN, None)


async def test_over_tcp_on_this_host_it_is_to_be_had_for_a_ticket_once(controller, agent):
    lease = await controller.grant("lease-a", mib=48)
    await controller.carried_out()
    status, text, nothing = await ask(agent.address, hello(lease, flags=PASSAGE))
    assert (status, nothing, len(text)) == (OK, None, 32 + 64)
    (passage,) = await collect(text)
    assert told(passage)[FLAGS] == bytes([PASSAGE, 0])
    assert await is_closed(text)


async def test_there_is_none_where_memory_is_committed_strictly(
    controller, serve, settings, tmp_path, monkeypatch
):
    strict = tmp_path / "overcommit"
    strict.write_text("2\n")
    monkeypatch.setattr(slice_file, "OVERCOMMIT", strict)
    with_socket = dataclasses.replace(settings, listen=(f"unix://{tmp_path / 'port'}",))
    async with serve(with_socket) as agent:
        lease = await controller.grant("lease-a", mib=48)
        await controller.carried_out()
        assert await ask(agent.address, hello(lease, flags=PASSAGE)) == (OK, "", None)


async def test_a_worker_gets_a_bounded_number(controller, serve, settings, tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "MOST_GIVEN", 2)
    with_socket = dataclasses.replace(settings, listen=(f"unix://{tmp_path / 'port'}",))
    async with serve(with_socket) as agent:
        lease = await controller.grant("lease-a", mib=48)
        await controller.carried_out()
        given = [(await ask(agent.address, hello(lease, flags=PASSAGE)))[2] for _ in range(4)]
        assert [one is not None for one in given] == [True, True, False, False]
        for one in given:
            if one is not None:
                os.close(one)
