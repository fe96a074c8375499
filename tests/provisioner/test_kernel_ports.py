"""Ports of kernels, between the choice of the server and the bind of the kernel."""

from __future__ import annotations

import socket

import pytest
import zmq
from jupyter_client.connect import LocalPortCache

from gpu_kernels.kernel_ports import HeldPorts, hold_ports

HOST = "127.0.0.1"


@pytest.fixture
def ports():
    held = HeldPorts()
    chosen = []

    def choose():
        chosen.append(held.find_available_port(HOST))
        return chosen[-1]

    held.choose = choose
    yield held
    for port in chosen:
        held.return_port(port)


def binds(port):
    with socket.socket() as somebody:
        try:
            somebody.bind((HOST, port))
        except OSError:
            return False
    return True


def test_a_held_port_is_the_kernels_alone(ports):
    port = ports.choose()
    assert not binds(port)
    with zmq.Context() as context, context.socket(zmq.ROUTER) as kernel, context.socket(zmq.DEALER) as client:
        kernel.bind(f"tcp://{HOST}:{port}")
        client.connect(f"tcp://{HOST}:{port}")
        client.send(b"hello")
        assert kernel.recv_multipart()[1] == b"hello"


def test_a_kernel_that_restarts_finds_its_port_free(ports):
    port = ports.choose()
    for _ in range(2):
        with zmq.Context() as context, context.socket(zmq.ROUTER) as kernel:
            kernel.bind(f"tcp://{HOST}:{port}")
        assert not binds(port)


def test_no_port_is_chosen_twice_by_servers_that_do_not_know_of_each_other(ports):
    other = HeldPorts()
    chosen = [server.find_available_port(HOST) for _ in range(300) for server in (ports, other)]
    assert len(set(chosen)) == len(chosen)
    for port in chosen:
        ports.return_port(port)
        other.return_port(port)


def test_a_port_that_is_given_back_is_anybodys(ports):
    port = ports.find_available_port(HOST)
    ports.return_port(port)
    assert binds(port)
    ports.return_port(port)


def test_the_stock_way_lets_go_of_a_port_at_once():
    """When this fails, upstream has repaired it."""
    assert binds(LocalPortCache().find_available_port(HOST))


@pytest.fixture
def no_cache():
    LocalPortCache.clear_instance()
    yield
    LocalPortCache.clear_instance()


def test_kernels_of_a_process_have_held_ports(no_cache):
    hold_ports()
    assert isinstance(LocalPortCache.instance(), HeldPorts)


def test_who_has_settled_that_otherwise_is_left_alone(no_cache):
    theirs = LocalPortCache.instance()
    hold_ports()
    assert LocalPortCache.instance() is theirs
