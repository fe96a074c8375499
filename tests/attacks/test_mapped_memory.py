"""A client that does what it likes with the memory that is mapped in it: nobody else is hit, and the bound
holds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forwarding.recorded import Client, native
from tests.memory.mapped import MIB, held_bytes, sharing
from tests.native_build import Build

__all__ = ["native"]
pytestmark = pytest.mark.native
LONG_S = 60.0

HOSTILE = '''
import fcntl
from gpu_kernels.remoting.agent.slice_file import SEALS

def the_file():
    """The descriptor that the library has; an attacker has it too."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if "gpu-kernels slice" in os.readlink(f"/proc/self/fd/{name}"):
                return int(name)
        except OSError:
            pass
    raise AssertionError("there is none")

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = U64

def map_all(file, size):
    at = libc.mmap(None, SIZE(size), INT(3), INT(1), INT(file), ctypes.c_long(0))
    assert at != 2**64 - 1
    return at

PUNCH = 3
def fallocate(file, mode, first, size):
    done = libc.fallocate(INT(file), INT(mode), ctypes.c_long(first), ctypes.c_long(size))
    return 0 if done == 0 else ctypes.get_errno()
'''


@pytest.fixture
def shared(tmp_path: Path, native: Build) -> Iterator[Client]:
    with sharing(tmp_path, native) as client:
        client.prelude += HOSTILE
        yield client


def works(client: Client) -> bool:
    """Whether another program of the lease is served."""
    return (
        client.check("""
        c = Mapped()
        address, words = c.here(MB)
        words[0] = 1
        c.launch(c.kernel(c.library_of(TEXT), "add"), [U64(address), UINT(1)])
        c.wait_in()
        print(words[0])
    """)
        == "2\n"
    )


def test_the_file_is_neither_shortened_nor_grown_nor_sealed(shared: Client) -> None:
    out = shared.check(f"""
        c = Mapped()
        c.here(MB)
        file, size = the_file(), {MIB} * MB
        def refused(act, *arguments):
            try:
                act(*arguments)
            except OSError as error:
                return error.errno
        import errno
        print(refused(os.ftruncate, file, 0) == errno.EPERM)
        print(refused(os.ftruncate, file, size + 4096) == errno.EPERM)
        print(refused(fcntl.fcntl, file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE) == errno.EPERM)
        print(fallocate(file, 0, size, 4096) == errno.EPERM, fallocate(file, 1, size, MB) in (0, errno.EPERM))
        print(refused(os.pwrite, file, b"x", size) == errno.EPERM, refused(os.open, f"/proc/self/fd/{{file}}",
              os.O_RDWR | os.O_TRUNC) in (errno.EPERM, errno.EACCES))
        print(os.fstat(file).st_size == size, fcntl.fcntl(file, fcntl.F_GET_SEALS) & SEALS == SEALS)
    """)
    assert "False" not in out, out
    assert works(shared)


def test_holes_and_writes_while_kernels_run_hit_nobody_else(shared: Client) -> None:
    with shared.start(f"""
        c = Mapped()
        address, words = c.here(8 * MB)
        file = the_file()
        everything = map_all(file, {MIB} * MB)
        add = c.kernel(c.library_of(TEXT), "add")
        print("at it", flush=True)
        ends, failed = time.monotonic() + 5, 0
        while time.monotonic() < ends:
            for i in range(50):
                c.launch(add, [U64(address + 4096 * i), UINT(1)])
            fallocate(file, PUNCH, 0, {MIB} * MB)
            ctypes.memset(everything, 0xEE, 8 * MB)
            failed += c.status("gkWaitInStream", U64(0)) != SUCCESS
            c.copy_in(address, os.urandom(4096))
        print(failed)
    """) as attacker:
        assert attacker.stdout
        assert attacker.stdout.readline() == "at it\n"
        out, err = attacker.communicate(timeout=LONG_S)
        assert out == "0\n", err
    assert works(shared)


def test_what_is_written_to_free_memory_goes_back_soon(shared: Client) -> None:
    with shared.start(f"""
        c = Mapped()
        c.here(MB)
        everything = map_all(the_file(), {MIB} * MB)
        ctypes.memset(everything, 0xEE, {MIB} * MB)
        print("written", flush=True)
        sys.stdin.readline()
        own, words = c.here(16 * MB)
        print(any(words[i] for i in range(0, 4 * MB, 512)))
    """) as attacker:
        assert attacker.stdout
        assert attacker.stdout.readline() == "written\n"
        until = time.monotonic() + LONG_S
        while held_bytes(shared.agent) > 1 << 20 and time.monotonic() < until:
            time.sleep(0.05)
        assert held_bytes(shared.agent) <= 1 << 20
        assert held_bytes(shared.agent) <= MIB << 20  # whatever happens
        out, err = attacker.communicate("\n", timeout=LONG_S)
        assert out == "False\n", err


def test_the_file_never_holds_more_than_the_slice(shared: Client) -> None:
    with shared.start(f"""
        c = Mapped()
        c.here(MB)
        everything = map_all(the_file(), {MIB} * MB)
        print("at it", flush=True)
        ends = time.monotonic() + 4
        while time.monotonic() < ends:
            ctypes.memset(everything, 0xEE, {MIB} * MB)
    """) as attacker:
        assert attacker.stdout
        assert attacker.stdout.readline() == "at it\n"
        most = 0
        while attacker.poll() is None:
            most = max(most, held_bytes(shared.agent))
    assert 0 < most <= MIB << 20
    until = time.monotonic() + LONG_S
    while held_bytes(shared.agent) > 0 and time.monotonic() < until:
        time.sleep(0.05)
    assert held_bytes(shared.agent) == 0
    assert works(shared)


def test_who_keeps_the_mapping_after_the_worker_has_nothing_of_the_next_one(shared: Client) -> None:
    with shared.start(f"""
        c = Mapped()
        address, words = c.here(8 * MB)
        everything = map_all(the_file(), {MIB} * MB)
        ctypes.memset(everything, 0x5A, 8 * MB)
        print("kept", flush=True)
        sys.stdin.readline()
        print((ctypes.c_uint8 * 8).from_address(everything)[0], flush=True)
        ctypes.memset(everything, 0x77, {MIB} * MB)
        sys.stdin.readline()
    """) as attacker:
        assert attacker.stdin
        assert attacker.stdout
        assert attacker.stdout.readline() == "kept\n"
        assert shared.agent.worker
        assert shared.agent.file
        before = shared.agent.file
        shared.agent.worker.kill()
        shared.agent.worker.wait()
        before.empty()  # as the agent does with a worker's end
        attacker.stdin.write("\n")
        attacker.stdin.flush()
        assert attacker.stdout.readline() == "0\n"
        assert works(shared)  # on another worker, with a file of its own
        assert shared.agent.file is not before
        assert held_bytes(shared.agent) <= 1 << 20
        attacker.communicate("\n", timeout=LONG_S)
