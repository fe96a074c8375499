"""What the software GPU offers beyond CUDA to the process that has loaded it (driver/extension.h)."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from tests.softgpu.driver.test_programs import environment

# A session whose text is gathered in `told`, entered by the main thread; PTX of the forwarding tests.
PRELUDE = """
import ctypes as c, threading, time
from tests.forwarding.device_text import ALL
from tests.forwarding.driver_api import *

class Extension(c.Structure):
    _fields_ = [
        ("version", c.c_uint32), ("bytes", c.c_uint32),
        ("begin", c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_void_p)),
        ("enter", c.CFUNCTYPE(None, c.c_void_p)),
        ("set_checks", c.CFUNCTYPE(None, c.c_void_p, c.c_uint32)),
        ("interrupt", c.CFUNCTYPE(None, c.c_void_p)),
        ("end", c.CFUNCTYPE(None, c.c_void_p)),
        ("limit_mapping", c.CFUNCTYPE(c.c_bool, c.c_uint64, c.c_size_t)),
        ("each_refused_kernel", c.CFUNCTYPE(None, c.c_void_p, c.c_void_p, c.c_void_p)),
        ("use_file", c.CFUNCTYPE(c.c_bool, c.c_int, c.c_uint64)),
        ("allocate_in_file", c.CFUNCTYPE(c.c_bool, c.POINTER(c.c_uint64), c.c_size_t, c.POINTER(c.c_uint64))),
        ("file_bytes", c.CFUNCTYPE(c.c_uint64)),
        ("sweep_file", c.CFUNCTYPE(None)), ("keep_news", c.CFUNCTYPE(c.c_int, c.c_int)),
    ]

find = c.CDLL("libcuda.so.1").gk_softgpu_extension
find.restype = c.POINTER(Extension)
assert not find(99)
extension = find(6).contents
assert (extension.version, extension.bytes) == (6, c.sizeof(Extension))
told = []
Sink = c.CFUNCTYPE(None, c.c_void_p, c.c_uint32, c.c_void_p, c.c_size_t)
sink = Sink(lambda user, kind, text, size: told.append((kind, c.string_at(text, size).decode())))
session = extension.begin(c.cast(sink, c.c_void_p), None)
extension.enter(session)
cuda = Cuda()
library = cuda.library_of(ALL)
"""


def run(program: str, log: Path) -> str:
    command = [sys.executable, "-c", PRELUDE + textwrap.dedent(program)]
    settings = environment(log) | {"PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_sessions_text_goes_to_its_sink_and_nowhere_else(library, tmp_path):
    log = tmp_path / "log"
    printed = run(
        """
        cuda.launch(cuda.kernel(library, "print"), [UINT(5)])
        cuda.synchronize()
        assert told == [(0, "0 0 5\\n")], told
        extension.enter(None)
        cuda.launch(cuda.kernel(library, "print"), [UINT(6)])
        cuda.synchronize()
        assert len(told) == 1
        extension.enter(session)
        cuda.launch(cuda.kernel(library, "wild"), [U64(cuda.allocate(4))], block=8)
        assert cuda.status("cuCtxSynchronize") == ILLEGAL_ADDRESS
        kind, text = told[1]
        assert kind == 2 and "thread (5,0,0)" in text, told
        """,
        log,
    )
    assert printed == "0 0 6\n"
    assert not log.exists()


def test_an_interrupt_ends_what_runs_once_and_keeps_the_memory(library, tmp_path):
    run(
        """
        memory = cuda.allocate(4)
        cuda.copy_in(memory, b"here")
        for _ in range(3):  # the second and third wait to run, and are skipped
            cuda.launch(cuda.kernel(library, "spin"))
        waiter = threading.Thread(target=lambda: (time.sleep(0.2), extension.interrupt(session)))
        waiter.start()
        assert cuda.status("cuCtxSynchronize") == 702
        waiter.join()
        assert cuda.status("cuCtxSynchronize") == 0
        assert cuda.copy_out(memory, 4) == b"here"
        cuda.launch(cuda.kernel(library, "print"), [UINT(5)])
        cuda.synchronize()
        assert told == [(0, "0 0 5\\n")], told
        """,
        tmp_path / "log",
    )


def test_an_interrupt_ends_kernels_that_launch_ever_more_kernels(library, tmp_path):
    """16 million of them, each too short to look for an interrupt itself."""
    run(
        """
        from tests.softgpu.engine.test_device_launches import DECLARED, launch, parent
        twice = launch("tree", "st.u64 [%buffer], %rd0;") * 2
        tree = cuda.library_of(DECLARED + parent(twice, "tree"))
        cuda.launch(cuda.kernel(tree, "tree"), [U64(0)])
        waiter = threading.Thread(target=lambda: (time.sleep(0.2), extension.interrupt(session)))
        waiter.start()
        assert cuda.status("cuCtxSynchronize") == 702
        waiter.join()
        assert cuda.status("cuCtxSynchronize") == 0
        """,
        tmp_path / "log",
    )


def test_an_interrupt_leaves_the_work_of_others_alone(library, tmp_path):
    run(
        """
        other = extension.begin(c.cast(sink, c.c_void_p), None)
        extension.interrupt(other)
        cuda.launch(cuda.kernel(library, "print"), [UINT(5)])
        extension.interrupt(other)
        cuda.synchronize()
        assert told == [(0, "0 0 5\\n")], told
        extension.end(other)
        """,
        tmp_path / "log",
    )


FILE = """
import os, random
from gpu_kernels.remoting.agent.slice_file import SliceFile
MB = 1 << 20
held = lambda: os.fstat(file.descriptor).st_blocks * 512
file = SliceFile(8)
assert extension.file_bytes() == 0
assert not extension.allocate_in_file(U64(), MB, U64())
assert extension.use_file(file.descriptor, 8 * MB)
assert not extension.use_file(file.descriptor, 8 * MB)

def allocate(size):
    address, place = U64(), U64()
    done = extension.allocate_in_file(c.byref(address), size, c.byref(place))
    return (address.value, place.value) if done else None
"""


def test_memory_in_a_file_is_the_kernels_and_whoevers_the_file_is(library, tmp_path):
    out = run(
        FILE
        + """
address, place = allocate(3 * MB + 5)
cuda.copy_in(address, b"kernel")
print(os.pread(file.descriptor, 6, place))
os.pwrite(file.descriptor, b"client", place + 3 * MB - 1)
print(cuda.copy_out(address + 3 * MB - 1, 6), extension.file_bytes() == 3 * MB + 4096)
cuda.free(address)
print(held(), extension.file_bytes(), allocate(9 * MB), allocate(0))
# What is freed is empty when it comes again, whatever somebody has written there.
os.pwrite(file.descriptor, bytes([7]) * MB, place)
again, its = allocate(MB)
print(its == place, any(cuda.copy_out(again, MB)))
# What is written to free places goes, and what is allocated stays.
cuda.copy_in(again, b"stays" * 1000)
os.pwrite(file.descriptor, bytes([7]) * 4 * MB, place + 2 * MB)
extension.sweep_file()
print(extension.file_bytes() == MB, held() <= MB, cuda.copy_out(again, 5))
""",
        tmp_path / "log",
    )
    assert out == "b'kernel'\nb'client' True\n0 0 None None\nTrue False\nTrue True b'stays'\n"


def test_places_in_a_file_never_overlap_and_all_of_it_comes_back(library, tmp_path):
    out = run(
        FILE
        + """
random.seed(1)
live = {}
for step in range(1500):
    if live and random.random() < 0.5:
        address = random.choice(list(live))
        place, size, mark = live.pop(address)
        assert cuda.copy_out(address, 8) == os.pread(file.descriptor, 8, place) == mark
        cuda.free(address)
        continue
    size = random.choice([1, 4096, 4097, 70_000, MB, 3 * MB])
    found = allocate(size)
    if found is None:
        continue
    address, place = found
    for other, its, _ in live.values():
        assert place + size <= other or other + its <= place
    assert place % 4096 == 0 and address % 4096 == 0 and place + size <= 8 * MB
    mark = step.to_bytes(8, "little")
    if size >= 8:
        cuda.copy_in(address, mark)
        live[address] = place, size, mark
    else:
        cuda.free(address)
for address in live:
    cuda.free(address)
print(held(), extension.file_bytes(), allocate(8 * MB) is not None)
""",
        tmp_path / "log",
    )
    assert out == "0 0 True\n"
