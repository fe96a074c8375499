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
    ]

find = c.CDLL("libcuda.so.1").gk_softgpu_extension
find.restype = c.POINTER(Extension)
assert not find(99)
extension = find(3).contents
assert (extension.version, extension.bytes) == (3, c.sizeof(Extension))
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
