"""A session that ends, or a context of it, waits for its own work, not for others' kernels without end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.both_ways import Process, agent_of, environments
from tests.native_build import Build

from .cases_ends import BYTES
from .conftest import MEMORY_MIB

CASES = "tests.execution.cases_ends"
NOT_READY = 600

Start = Callable[[str], Process]


@contextmanager
def killed_at_the_end(process: Process) -> Iterator[Process]:
    yield process
    process.process.kill()
    process.process.wait()


@pytest.fixture
def start(native: Build, tmp_path: Path) -> Iterator[Start]:
    # A worker of its own: what the processes of another test had would come back some time.
    with agent_of(native, tmp_path, MEMORY_MIB) as agent, ExitStack() as running:
        forwarded = environments(agent, native, MEMORY_MIB)[1]
        yield lambda name: running.enter_context(
            killed_at_the_end(Process(forwarded, tmp_path / name, CASES))
        )


@pytest.mark.parametrize("first", ["what never ends", "what is left"])
def test_a_session_ends_beside_a_kernel_of_another_that_never_ends(start: Start, first: str) -> None:
    leaver, other, busy = start("leaver"), start("other"), start("busy")
    before = other.run("free_bytes")
    # In the default stream, work that comes after what never ends can only wait for it.
    if first == "what never ends":
        assert busy.run("never_end", False) == NOT_READY
        leaver.run("work_in_all_streams")
    else:
        leaver.run("work_in_all_streams")
        assert busy.run("never_end", True) == NOT_READY
    assert other.run("free_bytes") <= before - BYTES
    leaver.process.kill()
    end = time.monotonic() + 60
    while other.run("free_bytes") <= before - BYTES:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_context_ends_beside_a_kernel_of_another_session_that_never_ends(start: Start) -> None:
    busy, other = start("busy"), start("other")
    assert busy.run("never_end", False) == NOT_READY
    before = other.run("free_bytes")
    other.run("whole_life_of_a_context")
    assert other.run("free_bytes") == before


def test_streams_that_another_thread_destroys_during_a_wait_are_no_error(start: Start) -> None:
    waiting, other = start("waiting"), start("other")
    other.run("free_bytes")  # with a second session the worker waits for each stream of the first
    assert waiting.run("wait_while_streams_go") == 0
