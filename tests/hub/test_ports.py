import socket
import time

import pytest

from gpu_kernels.spawner import ports


@pytest.mark.parametrize(
    ("ephemeral", "expected"),
    [
        ("32768\t60999\n", range(10_000, 32768)),
        ("10000 40000", range(40001, 65536)),
        ("garbage", range(10_000, 32768)),
    ],
)
def test_ports_that_outgoing_connections_use_are_not_chosen(tmp_path, monkeypatch, ephemeral, expected):
    file = tmp_path / "range"
    file.write_text(ephemeral)
    monkeypatch.setattr(ports, "EPHEMERAL", file)
    assert ports.reserved_range() == expected
    assert ports.free_port() in expected


def test_a_port_in_use_is_not_chosen(monkeypatch):
    port = ports.free_port()
    monkeypatch.setattr(ports, "reserved_range", lambda: range(port, port + 1))
    assert ports.free_port() == port
    with socket.create_server(("127.0.0.1", port)), pytest.raises(ports.NoFreePort):
        ports.free_port()


def test_a_port_that_was_chosen_already_is_not_chosen_again(monkeypatch):
    port = ports.free_port()
    monkeypatch.setattr(ports, "reserved_range", lambda: range(port, port + 1))
    with pytest.raises(ports.NoFreePort):
        ports.free_port(besides=[port])


def test_a_machine_that_uses_all_ports_for_connections_has_none_to_choose(tmp_path, monkeypatch):
    file = tmp_path / "range"
    file.write_text("1024 65535")
    monkeypatch.setattr(ports, "EPHEMERAL", file)
    with pytest.raises(ports.NoFreePort):
        ports.free_port()


def test_two_servers_that_start_are_not_given_the_same_port(monkeypatch):
    port = ports.free_port()
    monkeypatch.setattr(ports, "_chosen", {})
    monkeypatch.setattr(ports, "reserved_range", lambda: range(port, port + 1))
    assert ports.port_for_server() == port
    with pytest.raises(ports.NoFreePort):
        ports.port_for_server()


def test_a_port_is_given_again_when_its_server_has_started_or_never_will(monkeypatch):
    port = ports.free_port()
    long_ago = time.monotonic() - ports.STARTS_WITHIN_S - 1
    monkeypatch.setattr(ports, "_chosen", {port: long_ago})
    monkeypatch.setattr(ports, "reserved_range", lambda: range(port, port + 1))
    assert ports.port_for_server() == port
