"""Running a command as if it had been started in our place: signals, terminal and exit status."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence

FORWARDED = {
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
}
SENT_BY_KERNEL = 0x80  # siginfo's SI_KERNEL


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


def run_in_foreground(
    command: Sequence[str], environment: Mapping[str, str], started: Callable[[], None]
) -> int:
    """Run the command to its end and return its exit status, 128+n if it died by signal n.

    What is sent to us is sent on to the command; but not what a terminal sends, which goes to the whole
    foreground group, and so has reached the command already. ``started`` is called when it runs. Must be
    called in the main thread. Raises ``OSError`` if the command cannot be started.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED | {signal.SIGCHLD})
    try:
        child = subprocess.Popen(
            command,
            env=dict(environment),
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),
        )
        try:
            started()
            return _wait(child)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait(child: subprocess.Popen[bytes]) -> int:
    while (status := child.poll()) is None:
        received = signal.sigwaitinfo(FORWARDED | {signal.SIGCHLD})
        if received.si_signo != signal.SIGCHLD and received.si_code != SENT_BY_KERNEL:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, received.si_signo)
    return status if status >= 0 else 128 - status
