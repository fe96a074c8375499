"""What a signal that ends a command in the foreground leaves behind: nothing."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def unwinding() -> Iterator[None]:
    """Let SIGTERM and SIGHUP leave the block as an exception, so that what it took is given back; a signal
    that was ignored before stays so."""
    ended_by = [number for number in (signal.SIGTERM, signal.SIGHUP) if _ends_us(number)]

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    for number in ended_by:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in ended_by:
            signal.signal(number, signal.SIG_DFL)


def _ends_us(number: signal.Signals) -> bool:
    return signal.getsignal(number) == signal.SIG_DFL
