"""Files for pinned memory that no client of ours passes: the worker maps none of them, and goes on; and what
a client does afterwards with one that is mapped.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_kernels.remoting.hello import PASSAGE
from tests.forwarding.driver_api import INVALID_VALUE, NOT_SUPPORTED
from tests.forwarding.minimal_agent import HELLO, MinimalAgent
from tests.forwarding.opcodes import handmade
from tests.forwarding.recorded import native
from tests.forwarding.test_hostile_frames import ALLOCATE, RawLane, opcodes
from tests.forwarding.test_hostile_sessions import software_agent

__all__ = ["native", "opcodes", "software_agent"]
pytestmark = pytest.mark.native
MAP_HOST, MEMORY_LOOK = handmade()["MapHost"], handmade()["MemoryLook"]
PAGE, SIZE = 4096, 4 * 4096
FIRST, END = 0x3000_0000_0000, 0x5000_0000_0000
ADDRESS = 0x4000_0000_0000
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
FUTURE_WRITE = 0x10
LONG_S = 60.0


def pinned(seals: int = SEALS, size: int = SIZE, filled: bool = True) -> int:
    file = os.memfd_create("pinned", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, size)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
    if filled:
        os.pwrite(file, b"\5" * size, 0)
    return file


class Passing(RawLane):
    """A session with a passage."""

    def __init__(self, agent: MinimalAgent) -> None:
        super().__init__(agent)
        self.passage, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            hello = list(HELLO.unpack(agent.hello(self.session, 0)))
            hello[2] = PASSAGE
            agent.hand_over(theirs, HELLO.pack(*hello))
        self.passage.settimeout(LONG_S)
        assert self.passage.recv(1) == b"\0"

    def send(self, file: int, name: int = ADDRESS) -> None:
        socket.send_fds(self.passage, [struct.pack("<Q", name)], [file])

    def map(self, address: int = ADDRESS, size: int = SIZE) -> int:
        return self.ask(MAP_HOST, struct.pack("<QQ", address, size))[0]

    def look(self, address: int, size: int) -> tuple[int, bytes]:
        return self.ask(MEMORY_LOOK, struct.pack("<QII", address, size, 0))

    def close(self) -> None:
        self.socket.close()
        self.passage.close()

    def is_served(self) -> bool:
        """And what is right is mapped still."""
        self.send(pinned())
        return self.map() == 0 and self.look(ADDRESS, 4) == (0, b"\5" * 4)


@pytest.fixture
def session(software_agent: MinimalAgent) -> Iterator[Passing]:
    passing = Passing(software_agent)
    with contextlib.closing(passing.passage):
        yield passing


def wrong_files(folder: Path) -> dict[str, int]:
    path = folder / "file"
    path.write_bytes(bytes(SIZE))
    holed = pinned()
    with mmap.mmap(holed, SIZE) as mapped:
        mapped.madvise(mmap.MADV_REMOVE, PAGE, PAGE)
    closed = pinned()
    fcntl.fcntl(closed, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)
    read_only = pinned()
    return {
        "a pipe": os.pipe()[1],
        "a socket": socket.socketpair()[0].detach(),
        "a file of a disk": os.open(path, os.O_RDWR),
        "a device": os.open("/dev/zero", os.O_RDWR),
        "a file that may be shortened": pinned(fcntl.F_SEAL_GROW),
        "a file that may grow": pinned(fcntl.F_SEAL_SHRINK),
        "a file that nobody may write": pinned(SEALS, filled=False),
        "a file that is too short": pinned(size=SIZE - PAGE),
        "a file that is too long": pinned(size=SIZE + PAGE),
        "a file without pages": pinned(filled=False),
        "a file with a hole": holed,
        "a file that takes no seal": closed,
        "a file that may be read alone": os.open(f"/proc/self/fd/{read_only}", os.O_RDONLY),
    }


def test_what_is_no_file_of_pinned_memory_is_refused(session: Passing, tmp_path: Path) -> None:
    for name, file in wrong_files(tmp_path).items():
        session.send(file)
        assert session.map() == NOT_SUPPORTED, name
        assert session.look(ADDRESS, 4)[0] == INVALID_VALUE, name
    assert session.is_served()


@pytest.mark.parametrize(
    "address",
    [
        0,
        PAGE,
        ADDRESS + 8,
        FIRST - PAGE,
        FIRST - SIZE + PAGE,
        END - PAGE,
        END,
        0x7F00_0000_0000,
        2**64 - PAGE,
    ],
)
def test_nothing_is_mapped_where_no_pinned_memory_lies(session: Passing, address: int) -> None:
    session.send(pinned(), address)
    assert session.map(address) == INVALID_VALUE
    assert session.is_served()


@pytest.mark.parametrize("size", [0, 2**63, 2**64 - PAGE, 2**64 - 1])
def test_sizes_that_no_file_has_are_refused(session: Passing, size: int) -> None:
    session.send(pinned())
    assert session.map(size=size) == INVALID_VALUE
    assert session.is_served()


def test_what_was_not_passed_or_for_another_call_is_not_mapped(session: Passing) -> None:
    assert session.map() == NOT_SUPPORTED
    session.send(pinned(), ADDRESS + SIZE)
    assert session.map() == NOT_SUPPORTED
    session.passage.send(struct.pack("<Q", ADDRESS))
    assert session.map() == NOT_SUPPORTED
    session.passage.send(b"much too long for a name")
    assert session.is_served()


def test_nothing_is_laid_over_what_is_there(session: Passing, software_agent: MinimalAgent) -> None:
    assert session.is_served()
    other = Passing(software_agent)
    for address in (ADDRESS, ADDRESS + PAGE, ADDRESS - PAGE):
        other.send(pinned(), address)
        assert other.map(address) == NOT_SUPPORTED
    assert session.look(ADDRESS, 4) == (0, b"\5" * 4)


def test_a_file_is_mapped_once(session: Passing) -> None:
    file = pinned()
    session.send(file)
    assert session.map() == 0
    session.send(file, ADDRESS + 2**30)
    assert session.map(ADDRESS + 2**30) == NOT_SUPPORTED


def test_nobody_takes_pages_out_of_what_is_mapped(session: Passing) -> None:
    """Each would be missing in the worker, and on its account when a kernel writes there."""
    file = pinned()
    with mmap.mmap(file, SIZE) as mapped:
        session.send(file)
        assert session.map() == 0
        with pytest.raises(PermissionError):
            mapped.madvise(mmap.MADV_REMOVE)
        for act in (
            lambda: os.ftruncate(file, 0),
            lambda: os.ftruncate(file, SIZE + PAGE),
            lambda: os.pwrite(file, b"x", 0),
            lambda: mmap.mmap(file, SIZE),
            lambda: fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE),
        ):
            with pytest.raises(OSError) as refused:  # noqa: PT011
                act()
            assert refused.value.errno in (errno.EPERM, errno.EBUSY)
        mapped.madvise(mmap.MADV_DONTNEED)
        assert os.fstat(file).st_blocks * 512 == SIZE
        mapped[0] = 7
        assert session.look(ADDRESS, 2) == (0, b"\7\5")


def test_what_is_freed_may_be_mapped_anew(
    session: Passing, software_agent: MinimalAgent, opcodes: dict[str, int]
) -> None:
    assert session.is_served()
    session.post(opcodes["cuMemFree_v2"], struct.pack("<Q", ADDRESS))
    assert session.ask(opcodes["cuCtxSynchronize"])[0] == 0
    assert session.look(ADDRESS, 4)[0] == INVALID_VALUE
    assert unmapped(software_agent)
    assert session.is_served()


def mappings(agent: MinimalAgent) -> int:
    assert agent.worker
    return Path(f"/proc/{agent.worker.pid}/maps").read_text().count("memfd:pinned")


def unmapped(agent: MinimalAgent) -> bool:
    """In time: the worker lets go of it when all that runs has ended."""
    until = time.monotonic() + LONG_S
    while mappings(agent) and time.monotonic() < until:
        time.sleep(0.05)
    return mappings(agent) == 0


def test_the_worker_keeps_nothing_of_a_session_that_has_gone(software_agent: MinimalAgent) -> None:
    bystander = RawLane(software_agent)
    with contextlib.closing(Passing(software_agent)) as session:
        assert session.is_served()
        assert mappings(software_agent) == 1
    assert unmapped(software_agent)
    assert bystander.ask(ALLOCATE, struct.pack("<IIQQQQ", 0, 0, 64, 0, 0, 0))[0] == 0


def test_only_one_passage_of_a_session_counts(session: Passing, software_agent: MinimalAgent) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    unknown, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    hello = list(HELLO.unpack(software_agent.hello(session.session, 0)))
    hello[2] = PASSAGE
    with ours, theirs, unknown, end:
        software_agent.hand_over(theirs, HELLO.pack(*hello))
        hello[4] = os.urandom(16)  # nobody's
        software_agent.hand_over(end, HELLO.pack(*hello))
        theirs.close()
        end.close()
        for closed in (ours, unknown):
            closed.settimeout(LONG_S)
            assert closed.recv(1) == b""
    assert session.is_served()


@contextlib.contextmanager
def lingering() -> Iterator[socket.socket]:
    """A connection whose peer reads nothing: who closes the last descriptor waits for that."""
    with socket.socket() as listener, socket.socket() as ours:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        ours.connect(listener.getsockname())
        peer, _ = listener.accept()
        with peer:
            ours.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    ours.send(bytes(65536))
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
            ours.setblocking(True)
            try:
                yield ours
            finally:
                reset = struct.pack("ii", 1, 0)
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)


def test_a_descriptor_that_takes_long_to_close_holds_up_its_own_lane_alone(
    session: Passing, software_agent: MinimalAgent
) -> None:
    with lingering() as slow:
        session.send(slow.fileno(), ADDRESS + SIZE)
        slow.close()
        session.socket.sendall(session.frame(MAP_HOST, struct.pack("<QQ", ADDRESS, SIZE), session.order))
        session.socket.settimeout(1)
        with pytest.raises(TimeoutError):
            session.reply()
        again, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        hello = list(HELLO.unpack(software_agent.hello(session.session, 0)))
        hello[2] = PASSAGE
        with again, theirs:
            software_agent.hand_over(theirs, HELLO.pack(*hello))
        bystander = RawLane(software_agent)
        bystander.socket.settimeout(20)
        assert bystander.ask(ALLOCATE, struct.pack("<IIQQQQ", 0, 0, 64, 0, 0, 0))[0] == 0
    session.socket.settimeout(LONG_S)
    assert session.reply()[0] == NOT_SUPPORTED
    assert session.is_served()
