"""Strangers pass descriptors whose last close waits: nobody else waits with them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import socket
import struct
import time
from collections.abc import Callable

import pytest

from gpu_kernels.remoting.agent import side_threads
from gpu_kernels.remoting.agent.slice_file import SliceFile
from gpu_kernels.remoting.agent.ticket_office import PREFIX, TicketOffice
from tests.agent.lanes import lane, slices
from tests.agent.test_slice_file import collect

LINGERS_S, AT_ONCE_S = 60, 20
NO_OPTION = 9999


@pytest.fixture
def older_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that refuses descriptors for nobody."""
    monkeypatch.setattr(side_threads, "SO_PASSRIGHTS", NO_OPTION)


def lingering(peers: contextlib.ExitStack) -> socket.socket:
    """A TCP socket whose last close waits for a peer that takes nothing."""
    listener = peers.enter_context(socket.socket())
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    made = socket.create_connection(listener.getsockname())
    peers.enter_context(listener.accept()[0])
    made.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            made.send(bytes(65536))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGERS_S))
    return made


def attack(peers: contextlib.ExitStack, address: str | bytes, *words: bytes) -> socket.socket:
    """Connect and say these words, each with such a socket that nobody else has: all before a loop of this
    thread can receive them."""
    stranger = peers.enter_context(socket.socket(socket.AF_UNIX))
    stranger.connect(address)
    for word in words:
        with lingering(peers) as made:
            socket.send_fds(stranger, [word], [made.fileno()])
    return stranger


@contextlib.contextmanager
def at_once():
    began = time.monotonic()
    yield
    assert time.monotonic() - began < AT_ONCE_S


ATTACKS: dict[str, Callable[[contextlib.ExitStack, str], socket.socket]] = {
    "beside what is read": lambda peers, path: attack(peers, path, b"G"),
    "beside what is left unread": lambda peers, path: attack(peers, path, b"x", b"y"),
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_the_data_port_serves_others_while_descriptors_close(
    older_kernel, controller, serve, settings, tmp_path, name
):
    path = str(tmp_path / "port")
    with contextlib.ExitStack() as peers:
        async with serve(dataclasses.replace(settings, listen=(f"unix://{path}",))) as agent:
            lease = await controller.grant("lease-a")
            await controller.carried_out()
            with at_once():
                for _ in range(3):
                    ATTACKS[name](peers, path)
                async with lane(agent.address, lease) as open_lane:
                    assert await open_lane.ask("echo served") == "served"


async def test_one_account_at_all_its_threads_is_served_in_the_end(
    older_kernel, controller, serve, settings, tmp_path, monkeypatch
):
    monkeypatch.setattr(side_threads, "THREADS_OF_AN_ACCOUNT", 1)
    path = str(tmp_path / "port")
    with contextlib.ExitStack() as peers, at_once():
        async with serve(dataclasses.replace(settings, listen=(f"unix://{path}",))) as agent:
            lease = await controller.grant("lease-a")
            await controller.carried_out()
            for _ in range(3):
                attack(peers, path, b"x")
            assert await slices(agent.address, lease)


async def test_the_ticket_office_serves_others_while_descriptors_close(older_kernel):
    file = SliceFile(1)
    with contextlib.ExitStack() as peers, at_once():
        async with TicketOffice(file.descriptor, side_threads.SideThreads()) as office:
            serving = asyncio.ensure_future(office.serve())
            name = PREFIX + office.text[:32].encode()
            attack(peers, name, b"x")
            attack(peers, name, bytes(32), b"y")
            (given,) = await collect(office.text)
            os.close(given)
            await serving
    file.close()


async def test_where_the_kernel_can_it_refuses_descriptors(controller, serve, settings, tmp_path):
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.getsockopt(socket.SOL_SOCKET, side_threads.SO_PASSRIGHTS)
        except OSError:
            pytest.skip("this kernel has no SO_PASSRIGHTS")
    path = str(tmp_path / "port")
    async with serve(dataclasses.replace(settings, listen=(f"unix://{path}",))) as agent:
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(path)
            with pytest.raises(PermissionError):
                socket.send_fds(stranger, [b"G"], [stranger.fileno()])
        lease = await controller.grant("lease-a")
        async with lane(agent.address, lease) as open_lane:
            assert await open_lane.ask("echo served") == "served"
