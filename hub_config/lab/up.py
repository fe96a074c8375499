"""A lab in the foreground until Ctrl-C: what `jupyter gpu lab` runs, and `make up` by it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from gpu_kernels.hub_config.lab import accounts
from gpu_kernels.hub_config.lab.processes import LabError
from gpu_kernels.hub_config.lab.settings import Settings, SettingsError
from gpu_kernels.hub_config.lab.supervisor import Lab
from gpu_kernels.remoting.environment import without_gpu

SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")


def run(settings: Settings, *, browser: bool = False) -> int:
    """Runs the lab until a signal. The exit status is 0 if everything then stopped by itself, 2 if it cannot
    run like this. `browser`: opens one where there is a screen.
    """
    lab = Lab(settings, say=lambda text: print(f"{text} ...", flush=True))
    try:
        with stopped_by_signals(lab):
            try:
                with lab:
                    print(welcome(lab), flush=True)
                    if browser:
                        open_browser(settings.url)
                    while True:
                        lab.check_alive()
                        time.sleep(0.5)
            except KeyboardInterrupt:
                lab.stop()  # which has not begun if the signal came just before it
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    except LabError as error:
        return failed(str(error), lab)
    if lab.problems:
        return failed("not everything stopped by itself: " + "; ".join(lab.problems), lab)
    print("\nstopped; no process, no port and no lease is left")
    return 0


def open_browser(url: str) -> None:
    """Opens a browser if there is a screen, or if the user names one: another would take the terminal.

    In a session of its own: a browser may run for as long as the lab, and is not for its Ctrl-C to end. It
    has nothing of a slice in which the lab was started. Without it the lab goes on: the address was printed.
    """
    if not os.environ.get("BROWSER") and sys.platform != "darwin" and not any(map(os.environ.get, SCREENS)):
        return
    with suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-m", "webbrowser", url],
            env=without_gpu(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def welcome(lab: Lab) -> str:
    settings = lab.settings
    logins = accounts.logins(settings.secrets).values()
    width = max(len(login.password) for login in logins)
    rows = [f"    {login.name:6} {login.password:{width}}  {login.role}" for login in logins]
    return "\n".join(
        [
            "",
            f"  {settings.url}",
            "",
            f"    {'login':6} {'password':{width}}",
            *rows,
            "",
            *less_than_asked(lab),
            "  Open the address, log in as one of them, and open first_steps.ipynb: its kernel has a slice",
            f"  of a software GPU. What you do is kept in {settings.state}",
            f"  and found at the next start. Logs are in {settings.logs}. Ctrl-C stops everything.",
            "",
        ]
    )


def less_than_asked(lab: Lab) -> list[str]:
    """The lines that say so where this machine cannot promise the memory that its GPUs were to have."""
    asked = lab.settings.gpu_memory_mib
    offered = min((gpu.allocatable_mib for gpu in lab.gpus()), default=asked)
    if offered >= asked:
        return []
    return [
        f"  Each software GPU offers {offered} MiB, not {asked}: this machine has no more. Why is in",
        f"  {lab.settings.logs / 'agent.log'}",
        "",
    ]


def failed(reason: str, lab: Lab) -> int:
    print(f"\nFAILED: {reason}\nThe logs are in {lab.settings.logs}", file=sys.stderr)
    return 1


@contextmanager
def stopped_by_signals(lab: Lab) -> Iterator[None]:
    """The first SIGINT, SIGTERM or SIGHUP ends the block as a Ctrl-C does, unless the lab stops already; the
    second ends all at once. One that is ignored, as under `nohup`, stays so."""
    seen = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        if seen:
            lab.abandon()
            os._exit(128 + number)
        seen = True
        with suppress(OSError):  # of a terminal that was closed
            print("\nstopping (once more to stop at once) ...", file=sys.stderr, flush=True)
        if not lab.stopping:
            raise KeyboardInterrupt

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    heeded = [number for number in signals if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, on_signal) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
