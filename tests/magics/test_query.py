"""The status query: what is sent, what comes back, and agents that misbehave."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable

import pytest

from gpu_kernels.magics.query import AgentSilent, SliceStatus, query, transport

SECRET = bytes(range(32))
SLICE = {
    "name": "V100 (software)",
    "uuid": "GPU-1",
    "index": 0,
    "device": "software",
    "driver_version": "0.1",
    "total_mib": 655,
    "used_mib": 100,
    "utilisation": 12,
}


def answer(status: int, text: bytes) -> bytes:
    return struct.pack("<II", status, len(text)) + text


@pytest.fixture
def agent(tmp_path):
    """Starts an agent that reads a Hello, sends what it is told to, and closes; gives its address."""
    listeners, threads, heard = [], [], []

    def start(reply: bytes | Callable[[bytes], bytes], unix: bool = False) -> str:
        listener = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
        listener.bind(str(tmp_path / "agent") if unix else ("127.0.0.1", 0))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                hello = connection.recv(128, socket.MSG_WAITALL)
                heard.append(hello)
                connection.sendall(reply)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        listeners.append(listener)
        threads.append(thread)
        return f"unix://{tmp_path}/agent" if unix else f"tcp://127.0.0.1:{listener.getsockname()[1]}"

    start.heard = heard
    yield start
    for thread in threads:
        thread.join(60)
    for listener in listeners:
        listener.close()


def ask(address: str) -> list[SliceStatus]:
    """With more patience than people have: the agents here are threads of this process."""
    return query(address, "lease-1", 7, SECRET, timeout=60)


@pytest.mark.parametrize("unix", [False, True])
def test_an_agent_tells_of_each_slice(agent, unix):
    other = SLICE | {"uuid": "GPU-2", "utilisation": None}
    address = agent(answer(0, json.dumps([SLICE, other]).encode()), unix=unix)
    first, second = ask(address)
    assert (first.name, first.used_mib, first.total_mib, first.utilisation) == (
        "V100 (software)",
        100,
        655,
        12,
    )
    assert (second.uuid, second.utilisation) == ("GPU-2", None)


def test_the_hello_is_laid_out_as_the_design_says(agent):
    ask(agent(answer(0, b"[]")))
    hello = agent.heard[0]
    assert len(hello) == 128
    assert hello[:8] == b"GPUKHELO"
    assert struct.unpack_from("<HHI", hello, 8) == (1, 1, 0)
    assert struct.unpack_from("<Q", hello, 32) == (7,)
    assert hello[40:80] == b"lease-1".ljust(40, b"\0")
    assert hello[80:112] == SECRET
    assert hello[112:] == bytes(16)


def test_a_refusal_is_told_in_the_agents_words(agent):
    with pytest.raises(AgentSilent, match=r"^This lease has ended\.$"):
        ask(agent(answer(6, b"This lease has ended.")))


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"\0\0",
        answer(0, b"[]")[:-1],
        answer(0, b"not json"),
        answer(0, b'{"a": 1}'),
        answer(0, b'[{"name": 1}]'),
        answer(0, b"\xff\xfe"),
        struct.pack("<II", 0, 1 << 31),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
def test_an_agent_that_talks_nonsense_is_an_error_for_people(agent, reply):
    with pytest.raises(AgentSilent, match="The GPU server"):
        ask(agent(reply))


def test_an_agent_that_is_gone_is_an_error_for_people():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(AgentSilent, match="does not answer"):
        query(f"tcp://127.0.0.1:{port}", "lease-1", 7, SECRET)
    with pytest.raises(AgentSilent, match="does not answer"):
        query("unix:///nowhere/agent", "lease-1", 7, SECRET)


def test_an_agent_that_accepts_and_says_nothing_is_given_up():
    with (
        socket.create_server(("127.0.0.1", 0)) as deaf,
        pytest.raises(AgentSilent, match="does not answer"),
    ):
        query(f"tcp://127.0.0.1:{deaf.getsockname()[1]}", "lease-1", 7, SECRET, timeout=0.05)


@pytest.mark.parametrize("address", ["", "http://a:1", "tcp://", "tcp://host", "tcp://host:99999"])
def test_what_is_no_address_is_an_error_for_people(address):
    with pytest.raises(AgentSilent):
        query(address, "lease-1", 7, SECRET)


def test_transports_have_names():
    assert transport("tcp://a:1") == "TCP"
    assert transport("unix:///a") == "Unix socket"
