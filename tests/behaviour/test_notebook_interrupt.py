"""The interrupt button of a notebook: a real ipykernel, interrupted as Jupyter interrupts it."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

from .conftest import Way

FIRST = """
import numpy
from numba import cuda

@cuda.jit("void(int32[:])")
def bump(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1

@cuda.jit("void(int32[:])")
def forever(x):
    while x[0] < 100:
        pass

x = cuda.to_device(numpy.arange(10, dtype=numpy.int32))
bump[1, 32](x)
"""
ENDLESS = """
print("starts", flush=True)
forever[1, 1](x)
{wait}
"""
LATER = """
bump[1, 32](x)
print(x.copy_to_host().tolist())
"""
SOON, LONGER = 2.0, 30.0


class Notebook:
    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self._manager, self._client = manager, client

    def run(self, cell: str) -> str:
        """What the cell printed; it must succeed."""
        told: list[str] = []
        reply = self._client.execute_interactive(
            cell, timeout=100, output_hook=lambda message: told.append(_text(message))
        )
        assert reply["content"]["status"] == "ok", (told, reply["content"])
        return "".join(told)

    def run_and_interrupt(self, cell: str) -> str:
        """The error that the cell ends with when its user presses the button until it ends."""
        # An error ends this cell alone: ipykernel puts off those that it finds in its queue then.
        request = self._client.execute(cell, stop_on_error=False)
        while _text(self._client.get_iopub_msg(timeout=100)) != "starts\n":
            pass
        patience = SOON
        while True:
            try:
                reply = self._client.get_shell_msg(timeout=patience)
            except queue.Empty:
                self._manager.interrupt_kernel()
                patience = LONGER  # a press too many would meet the next cell
                continue
            if reply["parent_header"]["msg_id"] == request:
                return str(reply["content"].get("ename"))


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    return str(content.get("text") or "\n".join(content.get("traceback", [])))


@pytest.fixture
def notebook(forwarded: Way) -> Iterator[Notebook]:
    manager, client = start_new_kernel(startup_timeout=100, env=forwarded.environment)
    yield Notebook(manager, client)
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_the_button_ends_the_kernel_that_runs_and_keeps_what_is_stored(notebook: Notebook) -> None:
    notebook.run(FIRST)
    for number, wait in enumerate(["cuda.synchronize()", "x.copy_to_host()"]):
        assert notebook.run_and_interrupt(ENDLESS.format(wait=wait)) == "KeyboardInterrupt"
        kept = [i + 2 + number for i in range(10)]
        assert str(kept) in notebook.run(LATER)
