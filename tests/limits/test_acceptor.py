"""A process that runs out of descriptors pauses, tells it once, and goes on when there are some again."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tornado.web import Application

from gpu_kernels.limits.acceptor import PAUSE_S, Acceptor
from gpu_kernels.limits.descriptors import Shares, raise_soft_limit
from gpu_kernels.limits.front import Front

CLIENTS = 12


@contextmanager
def descriptors_left(number: int) -> Iterator[None]:
    """No more descriptors than so many, until the context ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)  # the lowest; what is above it may have holes, so close to it
    os.close(free)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    fillers = [os.open(os.devnull, os.O_RDONLY) for _ in range(highest - free + 1)]
    limit = max([*fillers, highest]) + 1 + number
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for filler in fillers:
            os.close(filler)


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        yield listening


@pytest.fixture
def clients() -> Iterator[list[socket.socket]]:
    """Sockets that are there already, and so need no more descriptors to connect."""
    sockets = [socket.socket() for _ in range(CLIENTS)]
    yield sockets
    for client in sockets:
        client.close()


async def test_a_lack_of_descriptors_does_not_spin(
    listening: socket.socket, clients: list[socket.socket]
) -> None:
    accepted: list[socket.socket] = []
    lacks: list[OSError] = []
    all_in, short = asyncio.Event(), asyncio.Event()

    def let_in(connection: socket.socket, _: object) -> None:
        accepted.append(connection)
        if len(accepted) == CLIENTS:
            all_in.set()

    def is_short(error: OSError) -> None:
        lacks.append(error)
        short.set()

    acceptor = Acceptor(listening, let_in, is_short)
    with descriptors_left(4):
        for client in clients:
            client.connect(listening.getsockname())
        begun = asyncio.get_running_loop().time()
        await asyncio.wait_for(short.wait(), 60)
        await asyncio.sleep(5 * PAUSE_S)
        pauses = (asyncio.get_running_loop().time() - begun) / PAUSE_S
        assert len(accepted) < CLIENTS
        assert 2 <= len(lacks) <= pauses + 1, "one attempt a pause"
    await asyncio.wait_for(all_in.wait(), 60)
    acceptor.close()
    for connection in accepted:
        connection.close()


async def test_idle_strangers_give_way_where_the_machine_has_no_descriptors(
    listening: socket.socket, clients: list[socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    many = Shares(unproved=100, of_peer=100, proved=100, reserve=10)
    front = Front(Application([]), shares=many, log=logging.getLogger("test"))
    front.add_sockets([listening])
    with descriptors_left(4):
        for client in clients[:-1]:
            client.connect(listening.getsockname())
        last = clients[-1]
        last.setblocking(False)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(60):
            await loop.sock_connect(last, listening.getsockname())
            await loop.sock_sendall(last, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = await loop.sock_recv(last, 1000)
    assert b" 404 " in answer
    assert 1 <= len([record for record in caplog.records if "cannot accept" in record.message]) <= 20
    front.stop()
    await front.close_all_connections()


def test_the_soft_limit_becomes_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
        assert raise_soft_limit() == (min(soft, 256), hard)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
        assert raise_soft_limit() == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
