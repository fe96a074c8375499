"""Programs that a notebook starts have the lease of their environment, and shells have nothing to pay."""

from __future__ import annotations

import sys

from .conftest import Way

CHILD = """
from tests.forwarding.driver_api import *
c = Cuda()
free, total = SIZE(), SIZE()
c.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
memory = c.allocate(4)
c.copy_in(memory, b"hers")
print(total.value >> 20, free.value <= total.value - (500 << 20), c.copy_out(memory, 4))
"""


def test_a_program_that_a_program_starts_has_the_same_slice(forwarded: Way) -> None:
    program = """
        import subprocess
        c = Cuda()
        memory = c.allocate(500 << 20)
        c.copy_in(memory, b"mine")
        for _ in range(2):
            subprocess.run([sys.executable, "-c", os.environ["CHILD"]], check=True)
        say(c.copy_out(memory, 4))
    """
    ended = forwarded.check(program, CHILD=CHILD)
    assert ended.out == "2048 True b'hers'\n" * 2 + "b'mine'\n"
    assert ended.err == ""


def test_a_shell_starts_without_a_word_a_thread_or_a_driver(way: Way) -> None:
    look = "grep -c libcuda.so /proc/self/maps; grep Threads: /proc/self/status; ls -d /"
    with way.start_command("/bin/sh", "-c", look) as shell:
        out, err = shell.communicate(timeout=100)
    assert (out, err) == ("0\nThreads:\t1\n/\n", "")


def test_python_itself_starts_without_a_word_a_thread_or_a_driver(way: Way) -> None:
    look = """
print(any("libcuda.so" in line for line in open("/proc/self/maps")))
print([line for line in open("/proc/self/status") if line.startswith("Threads:")])
"""
    with way.start_command(sys.executable, "-c", look) as python:
        out, err = python.communicate(timeout=100)
    assert (out, err) == ("False\n['Threads:\\t1\\n']\n", "")
