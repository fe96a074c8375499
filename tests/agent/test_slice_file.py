"""The slice file: who gets it, what can be done to it, and what becomes of it with the worker."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import fcntl
import os
import socket
import struct
from pathlib import Path

import pytest

from gpu_kernels.remoting.agent import slice_file as module
from gpu_kernels.remoting.agent import ticket_office
from gpu_kernels.remoting.agent.side_threads import SideThreads
from gpu_kernels.remoting.agent.slice_file import SEALS, SliceFile, slice_file
from gpu_kernels.remoting.agent.ticket_office import PREFIX, TicketOffice
from tests.agent.lanes import hello, lane

OK, UNKNOWN = 0, 3
MIB = 1 << 20


def held(descriptor: int) -> int:
    return os.fstat(descriptor).st_blocks * 512


async def ask(address: str, data: bytes) -> tuple[int, str, int | None]:
    """An agent's answer to a Hello: status, text, and the descriptor that came along."""

    def talk() -> tuple[int, str, int | None]:
        unix = address.startswith("unix://")
        with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as connection:
            connection.settimeout(60)
            if unix:
                connection.connect(address.removeprefix("unix://"))
            else:
                host, port = address.removeprefix("tcp://").rsplit(":", 1)
                connection.connect((host, int(port)))
            connection.sendall(data)
            head, files, _, _ = socket.recv_fds(connection, 8, 4)
            status, length = struct.unpack("<II", head)
            text = connection.recv(length, socket.MSG_WAITALL).decode() if length else ""
            return status, text, files[0] if files else None

    return await asyncio.to_thread(talk)


async def collect(text: str, ticket: bytes | None = None) -> list[int]:
    """What is given for a ticket at the office that an agent has told of."""

    def go() -> list[int]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(PREFIX + text[:32].encode())
            connection.sendall(bytes.fromhex(text[32:]) if ticket is None else ticket)
            return list(socket.recv_fds(connection, 1, 4)[1])

    return await asyncio.to_thread(go)


async def is_closed(text: str) -> bool:
    """Whether there is no office any more; one that is going gives nothing."""
    for _ in range(600):
        try:
            assert await collect(text) == []
        except ConnectionError:
            return True
        await asyncio.sleep(0.05)
    return False


def test_a_file_has_one_size_for_ever_and_gives_its_pages_back() -> None:
    file = SliceFile(3)
    try:
        assert os.fstat(file.descriptor).st_size == 3 * MIB
        assert fcntl.fcntl(file.descriptor, fcntl.F_GET_SEALS) & SEALS == SEALS
        for size in (0, 3 * MIB - 1, 3 * MIB + 1):
            with pytest.raises(PermissionError):
                os.ftruncate(file.descriptor, size)
        assert os.pwrite(file.descriptor, b"x" * MIB, MIB) == MIB
        assert held(file.descriptor) == MIB
        file.empty()
        assert held(file.descriptor) == 0
        assert os.pread(file.descriptor, 3, MIB) == bytes(3)
    finally:
        file.close()
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(file.descriptor)


def test_there_is_none_without_a_software_gpu_or_where_memory_is_committed_strictly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert slice_file(0) is None
    strict = tmp_path / "overcommit"
    strict.write_text("2\n")
    monkeypatch.setattr(module, "OVERCOMMIT", strict)
    assert slice_file(1) is None
    strict.write_text("0\n")
    made = slice_file(1)
    assert made
    made.close()


async def test_over_a_unix_socket_it_comes_with_the_answer(controller, serve, settings, tmp_path):
    with_socket = dataclasses.replace(settings, listen=(f"unix://{tmp_path / 'port'}",))
    async with serve(with_socket) as agent:
        lease = await controller.grant("lease-a", mib=48)
        await controller.carried_out()
        async with lane(agent.address, lease):
            status, text, file = await ask(agent.address, hello(lease, flags=2))
            assert (status, text) == (OK, "")
            assert file is not None
            assert os.fstat(file).st_size == 48 * MIB
            os.pwrite(file, b"kept", 0)
            status, _, nothing = await ask(agent.address, hello(lease, flags=2, secret=bytes(32)))
            assert (status, nothing) == (UNKNOWN, None)
            assert held(file) > 0
        await controller.end("lease-a")
        await controller.carried_out()
        # Whoever keeps it: the pages are back before the lease counts as ended.
        assert held(file) == 0
        os.close(file)


async def test_over_tcp_on_this_host_it_is_to_be_had_for_a_ticket_once(controller, agent):
    lease = await controller.grant("lease-a", mib=48)
    await controller.carried_out()
    asking = asyncio.ensure_future(ask(agent.address, hello(lease, flags=2)))
    status, text, file = await asking
    assert (status, file, len(text)) == (OK, None, 32 + 64)
    assert await collect(text, bytes(32)) == []
    (file,) = await collect(text)
    assert os.fstat(file).st_size == 48 * MIB
    os.close(file)
    assert await is_closed(text)


async def test_strangers_who_say_nothing_do_not_hold_up_a_client(monkeypatch) -> None:
    monkeypatch.setattr(ticket_office, "STRANGER_S", 600.0)
    file = SliceFile(1)
    async with (
        TicketOffice(file.descriptor, SideThreads()) as office,
        contextlib.AsyncExitStack() as strangers,
    ):
        serving = asyncio.ensure_future(office.serve())
        for _ in range(ticket_office.SEATS - 1):
            stranger = strangers.enter_context(socket.socket(socket.AF_UNIX))
            await asyncio.to_thread(stranger.connect, PREFIX + office.text[:32].encode())
        file.close()  # the worker has ended
        (given,) = await collect(office.text)
        assert os.fstat(given).st_size == MIB
        os.close(given)
        await serving


async def test_two_leases_have_a_file_each(controller, serve, settings, tmp_path):
    with_socket = dataclasses.replace(settings, listen=(f"unix://{tmp_path / 'port'}",))
    async with serve(with_socket) as agent:
        files = []
        for name in ("lease-a", "lease-b"):
            lease = await controller.grant(name, mib=16)
            await controller.carried_out()
            files += [(await ask(agent.address, hello(lease, flags=2)))[2] for _ in range(2)]
        places = [os.fstat(file).st_ino for file in files if file is not None]
        assert places[0] == places[1] != places[2] == places[3]
        for file in files:
            os.close(file)


async def test_a_lease_gets_a_bounded_number_of_descriptors(
    controller, serve, settings, tmp_path, monkeypatch
):
    """Those that are not taken lie with the agent's account, which has room for so many."""
    monkeypatch.setattr(module, "MOST_GIVEN", 3)
    with_socket = dataclasses.replace(settings, listen=(f"unix://{tmp_path / 'port'}",))
    async with serve(with_socket) as agent:
        lease = await controller.grant("lease-a", mib=16)
        await controller.carried_out()
        answers = [await ask(agent.address, hello(lease, flags=2)) for _ in range(5)]
        assert [status for status, _, _ in answers] == [OK] * 5
        files = [file for _, _, file in answers if file is not None]
        assert len(files) == 3
        for file in files:
            os.close(file)
