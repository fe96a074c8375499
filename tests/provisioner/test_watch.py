"""Watching a child start: its standard error is kept and passed on, its early end is seen."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from gpu_kernels.provisioner.watch import StderrTail, died_within, ending


def child(code: str, tail: StderrTail | None = None) -> subprocess.Popen:
    stderr = None if tail is None else tail.child_end
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=stderr)
    if tail is not None:
        tail.started()
    return process


def test_the_last_lines_are_kept_and_everything_reaches_our_own_stderr(capfd):
    tail = StderrTail()
    child("import sys; [print('line', n, file=sys.stderr) for n in range(100)]", tail).wait()
    assert tail.text(wait_s=60).splitlines() == [f"line {n}" for n in range(92, 100)]
    assert capfd.readouterr().err.splitlines() == [f"line {n}" for n in range(100)]


def test_what_is_kept_is_bounded_and_need_not_be_text():
    tail = StderrTail(limit=10)
    child("import sys; sys.stderr.buffer.write(b'x' * 100000 + b'\\xff\\xfe')", tail).wait()
    assert tail.text(wait_s=60) == "x" * 8 + "\ufffd\ufffd"


def test_a_child_that_says_nothing_leaves_an_empty_text():
    tail = StderrTail()
    child("", tail).wait()
    assert tail.text(wait_s=60) == ""


async def test_an_early_end_is_seen():
    process = child("raise SystemExit(3)")
    assert await died_within(process, 60)
    assert process.returncode == 3


async def test_a_child_that_lives_is_not_waited_for_longer_than_asked():
    process = child("input()")
    assert not await died_within(process, 0.05)
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    ("returncode", "words"),
    [(1, "exit status 1"), (0, "exit status 0"), (-signal.SIGSEGV, "signal SIGSEGV"), (-99, "signal 99")],
)
def test_an_ending_is_said_in_words(returncode, words):
    assert ending(returncode) == words
