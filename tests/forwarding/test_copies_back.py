"""Asynchronous copies that are under way when something else happens.

What a program sees of them when nothing happens: tests/memory/test_async_copies.py.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native_build import Build, build

from .interrupts import pressing
from .lives import software
from .minimal_agent import WRONG_SECRET, MinimalAgent
from .opcodes import handmade
from .recorded import Client
from .test_hostile_frames import REPLY

__all__ = ["software"]

PRELUDE = """
    import ctypes, os, sys, threading, time
    FUNCTION = ctypes.CFUNCTYPE(None, POINTER)

    def say(*words):
        print(*words, flush=True)

    def host(c, size):
        return c.out("cuMemHostAlloc", SIZE(size), UINT(0))

    def back(c, to, source, size, stream=0):
        return c.status("cuMemcpyDtoHAsync_v2", POINTER(to), U64(source), SIZE(size), U64(stream))

    def filled(c, size, byte=b"\\7"):
        source = c.allocate(size)
        c.copy_in(source, byte * size)
        return source

    go = threading.Event()
    held = FUNCTION(lambda _: go.wait(30) and None)
    def hold(c, stream=0):
        c.call("cuLaunchHostFunc", U64(stream), held, None)
"""
SMALL = 100_000


def test_a_program_ends_with_copies_under_way(software: Client) -> None:
    done = software.run(
        PRELUDE
        + f"""
    c = Cuda()
    source, pinned = filled(c, {SMALL}), host(c, {SMALL})
    c.launch(c.kernel(c.library_of(TEXT), "spin"))
    for _ in range(10):
        assert back(c, pinned, source, {SMALL}) == 0
    say("end")
    """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
    # Nothing is left of it: the next session's default stream is the same.
    software.check("c = Cuda()\nc.copy_in(c.allocate(4), b'next')\nc.synchronize()\n")


def test_a_wait_and_a_free_return_when_the_worker_has_died(software: Client) -> None:
    done = software.run(
        PRELUDE
        + f"""
    c = Cuda()
    source, pinned = filled(c, {SMALL}), host(c, {SMALL})
    hold(c)
    print(back(c, pinned, source, {SMALL}), flush=True)
    os.kill(int(os.environ["WORKER"]), {int(signal.SIGKILL)})
    print(c.status("cuCtxSynchronize"), c.status("cuMemFreeHost", POINTER(pinned)))
    go.set()
    """,
        WORKER=str(software.agent.worker.pid if software.agent.worker else 0),
    )
    assert done.stdout == "0\n46 0\n", done.stderr
    assert done.stderr.count("the connection to the GPU server was lost") == 1


def test_after_a_fault_nothing_is_copied_and_nobody_waits(software: Client) -> None:
    done = software.run(
        PRELUDE
        + f"""
    c = Cuda()
    source, pinned = filled(c, {SMALL}), host(c, {SMALL})
    store = c.kernel(c.library_of(TEXT), "store")
    c.launch(store, [U64(16), UINT(1)])
    print(back(c, pinned, source, {SMALL}))
    print(c.status("cuMemFreeHost", POINTER(pinned)) in (0, 700), c.status("cuStreamSynchronize", U64(0)))
    """
    )
    assert done.stdout == "0\nTrue 700\n", done.stderr


def test_a_free_that_waits_behind_an_endless_kernel_is_interrupted(software: Client) -> None:
    program = (
        PRELUDE
        + f"""
    import signal
    signal.signal(signal.SIGINT, lambda *_: None)
    c = Cuda()
    source, pinned = filled(c, {SMALL}), host(c, {SMALL})
    c.launch(c.kernel(c.library_of(TEXT), "spin"))
    assert back(c, pinned, source, {SMALL}) == 0
    say("waiting")
    say(c.status("cuMemFreeHost", POINTER(pinned)))
    sys.stdin.readline()
    c.status("cuCtxSynchronize")  # the interrupt
    say(c.status("cuCtxSynchronize"))
    """
    )
    with software.start(program) as process:
        assert process.stdout
        assert process.stdout.readline() == "waiting\n"
        with pressing(process):
            answer = process.stdout.readline()
        out, errors = process.communicate("on\n", timeout=60)
    assert (answer, out) == ("0\n", "0\n"), errors


def test_a_child_of_a_fork_neither_waits_for_copies_nor_takes_them(software: Client) -> None:
    out = software.check(
        PRELUDE
        + f"""
    c = Cuda()
    source, pinned = filled(c, {SMALL}), host(c, {SMALL})
    hold(c)
    assert back(c, pinned, source, {SMALL}) == 0
    if (child := os.fork()) == 0:
        c.status("cuMemFreeHost", POINTER(pinned))
        say(back(c, pinned, source, {SMALL}))
        os._exit(0)
    os.waitpid(child, 0)
    go.set()
    c.synchronize()
    print(ctypes.string_at(pinned, {SMALL}) == b"\\7" * {SMALL})
    """
    )
    assert out == "3\nTrue\n"


def test_a_life_ends_with_copies_under_way_and_the_next_one_copies(software: Client) -> None:
    out = software.check(
        PRELUDE
        + f"""
    c = Cuda()
    for _ in range(3):
        source, pinned = filled(c, {SMALL}), host(c, {SMALL})
        assert back(c, pinned, source, {SMALL}) == 0
        c.synchronize()
        print(ctypes.string_at(pinned, {SMALL}) == b"\\7" * {SMALL})
        ctypes.memset(pinned, 0, {SMALL})
        c.launch(c.kernel(c.library_of(TEXT), "spin"))
        assert back(c, pinned, source, {SMALL}) == 0
        new_life(c)
        print(ctypes.string_at(pinned, {SMALL}) == bytes({SMALL}), c.status("cuMemFreeHost", POINTER(pinned)))
        c.use_context()
    """
    )
    assert out.split() == ["True", "True", "0"] * 3


def resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def test_copies_without_a_wait_take_no_memory_of_the_worker(software: Client) -> None:
    """1.3 GB under way at once, behind a stream that is held."""
    assert software.agent.worker
    pid = software.agent.worker.pid
    with software.start(
        PRELUDE
        + """
    size = 32 << 20
    c = Cuda()
    source, pinned = filled(c, size), host(c, size)
    back(c, pinned, source, size)
    c.synchronize()
    hold(c)
    for _ in range(40):
        assert back(c, pinned, source, size) == 0
    say("under way")
    sys.stdin.readline()
    go.set()
    c.synchronize()
    say(ctypes.string_at(pinned, size) == b"\\7" * size)
    sys.stdin.readline()
    """
    ) as process:
        assert process.stdout
        assert process.stdin
        seen = []
        for word in ("under way\n", "True\n"):
            assert process.stdout.readline() == word
            seen.append(resident_mib(pid))
            process.stdin.write("on\n")
            process.stdin.flush()
        process.communicate(timeout=60)
    assert seen[1] - seen[0] < 16


NEXT_COPY = handmade()["NextCopyBack"]
HEADER = struct.Struct("<IHBBQ")


class Between(MinimalAgent):
    """Stands between the client and its worker, and changes what the receiver of copies is sent: as a worker
    that was taken over might."""

    how = ""

    def __enter__(self) -> Between:
        self.again = threading.Event()
        self.asked = 0  # how often for the next copy
        super().__enter__()
        return self

    def hand_over(self, connection: socket.socket, hello: bytes) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            super().hand_over(theirs, hello)
        client = connection.dup()
        state = {"receiver": False, "first": b""}
        for pump in (self._from_client, self._from_worker):
            threading.Thread(target=pump, args=(client, ours, state), daemon=True).start()

    def _from_client(self, client: socket.socket, worker: socket.socket, state: dict[str, object]) -> None:
        while head := client.recv(HEADER.size, socket.MSG_WAITALL):
            length, opcode = HEADER.unpack(head)[:2]
            payload = client.recv(length, socket.MSG_WAITALL) if length else b""
            state["receiver"] = opcode == NEXT_COPY
            self.asked += opcode == NEXT_COPY
            worker.sendall(head + payload)
            if opcode == NEXT_COPY and self.how == "twice" and state["first"]:
                self.again.wait(60)
                client.sendall(state["first"])  # type: ignore[arg-type]
        worker.shutdown(socket.SHUT_RDWR)

    def _from_worker(self, client: socket.socket, worker: socket.socket, state: dict[str, object]) -> None:
        try:
            while head := worker.recv(REPLY.size, socket.MSG_WAITALL):
                length, _ = REPLY.unpack(head)
                payload = worker.recv(length & 0x3FFFFFFF, socket.MSG_WAITALL) if length else b""
                if state["receiver"]:
                    head, payload = self._changed(head, payload, state)
                client.sendall(head + payload)
        except OSError:
            pass
        client.shutdown(socket.SHUT_RDWR)

    def _changed(self, head: bytes, payload: bytes, state: dict[str, object]) -> tuple[bytes, bytes]:
        state["first"] = bytes(state["first"]) + head + payload  # type: ignore[call-overload]
        is_piece = len(payload) != 16
        if self.how == "of nobody" and not is_piece:
            ticket, status, zero = struct.unpack("<QiI", payload)
            return head, struct.pack("<QiI", ticket + 1, status, zero)
        if self.how == "larger" and is_piece:
            return REPLY.pack(len(payload) + 4096, 0), payload + b"\x66" * 4096
        return head, payload


@pytest.fixture
def between(tmp_path: Path, native: Build) -> Iterator[Client]:
    build(native.folder, "softgpu")
    driver = native.folder / "softgpu" / "libcuda.so.1"
    settings = {"GPU_KERNELS_SOFTGPU_MEMORY_MIB": "64"}
    with Between(tmp_path, native.worker, driver, environment=settings) as agent:
        yield Client(agent, native)


@pytest.mark.parametrize("how", ["", "of nobody", "larger", "twice"])
def test_a_worker_writes_only_what_was_asked_for_where_it_was_and_once(between: Client, how: str) -> None:
    assert isinstance(between.agent, Between)
    between.agent.how = how
    with between.start(
        PRELUDE
        + f"""
    c = Cuda()
    source, pinned = filled(c, {SMALL}), host(c, 3 * {SMALL})
    assert back(c, pinned + {SMALL}, source, {SMALL}) == 0
    first = c.status("cuCtxSynchronize")
    ctypes.memset(pinned + {SMALL}, 0, {SMALL})
    say("zeroed")
    second = 0
    while {how == "twice"} and second == 0:
        second = c.status("cuCtxSynchronize")
    rest = ctypes.string_at(pinned, 3 * {SMALL})
    print(first, second, set(rest), c.status("cuMemFreeHost", POINTER(pinned)))
    """
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == "zeroed\n"
        between.agent.again.set()
        out, errors = process.stdout.read(), process.stderr.read()
    first, second = (46 if how in ("of nobody", "larger") else 0), (46 if how == "twice" else 0)
    assert out == f"{first} {second} {{0}} 0\n", errors
    assert ("the connection to the GPU server was lost" in errors) == bool(how)
    assert between.agent.asked > 0


class OneLane(MinimalAgent):
    """Has no connection for the receiver of copies."""

    refused = 0

    def _answer(self, connection: socket.socket, hello: bytes) -> None:
        if struct.unpack_from("<I", hello, 12)[0] == 0:
            super()._answer(connection, hello)
            return
        self.refused += 1
        text = b"no more connections"
        connection.sendall(struct.pack("<II", WRONG_SECRET, len(text)) + text)


def test_without_a_lane_for_the_receiver_copies_are_waited_for(tmp_path: Path, native: Build) -> None:
    """It is asked for once in a life, and the user, whose threads all have theirs, is told nothing."""
    build(native.folder, "softgpu")
    settings = {"GPU_KERNELS_SOFTGPU_MEMORY_MIB": "64"}
    driver = native.folder / "softgpu" / "libcuda.so.1"
    with OneLane(tmp_path, native.worker, driver, environment=settings) as agent:
        done = Client(agent, native).run(
            PRELUDE
            + f"""
    for life in range(2):
        c = Cuda()
        source, pinned = filled(c, {SMALL}), host(c, {SMALL})
        for _ in range(5):
            ctypes.memset(pinned, 0, {SMALL})
            assert back(c, pinned, source, {SMALL}) == 0
            assert ctypes.string_at(pinned, {SMALL}) == b"\\7" * {SMALL}
        assert c.library.gkNewLife() == SUCCESS
    """
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert agent.refused == 2
