"""A person at the interrupt button."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pressing(process: subprocess.Popen[str]) -> Iterator[None]:
    """Who presses again and again while nothing happens: a press before the wait has begun is lost. No press
    comes after the end of the block."""
    ended = threading.Event()

    def press() -> None:
        while not ended.wait(0.1) and process.poll() is None:
            process.send_signal(signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    try:
        yield
    finally:
        ended.set()
        presser.join()
