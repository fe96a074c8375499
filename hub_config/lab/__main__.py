"""`python -m gpu_kernels.hub_config.lab demo`, or `up`: what `make demo` and `make up` run."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from gpu_kernels.hub_config.lab import accounts
from gpu_kernels.hub_config.lab.processes import LabError
from gpu_kernels.hub_config.lab.settings import Settings, SettingsError
from gpu_kernels.hub_config.lab.student_path import StudentPath
from gpu_kernels.hub_config.lab.supervisor import Lab

TITLE_WIDTH = 46
SEEN_WIDTH = 96


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gpu_kernels.hub_config.lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("demo", help="play a student's path and stop")
    up = commands.add_parser("up", help="run in the foreground until Ctrl-C")
    up.add_argument("--state", type=Path, default=Path("state"), help="folder that keeps the lab's state")
    up.add_argument("--port", type=int, default=8000, help="port for browsers; the next five are used too")
    up.add_argument("--address", default="127.0.0.1", help="a loopback address")
    options = parser.parse_args(arguments)
    try:
        if options.command == "demo":
            return demo()
        return run_up(Settings.in_a_row(options.state, options.port, address=options.address))
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2


def demo() -> int:
    """Plays the student's path in a lab of its own. The exit status is 0 if every step went well."""
    state = Path(tempfile.mkdtemp(prefix="gpu-kernels-demo-"))
    lab = Lab(Settings.on_free_ports(state))
    begun = time.monotonic()
    try:
        with stopped_by_signals(lab), lab:
            row("start the hub, the controller and an agent", time.monotonic() - begun, lab.settings.url)
            path = StudentPath(lab)
            try:
                for step in path.walk():
                    row(step.title, step.seconds, step.seen)
            finally:
                path.close()
            stopping = time.monotonic()
        row("stop everything", time.monotonic() - stopping, "no process, no port left")
    except KeyboardInterrupt:
        return failed("interrupted", lab)
    except LabError as error:
        return failed(str(error), lab)
    if lab.problems:
        return failed("not everything stopped by itself: " + "; ".join(lab.problems), lab)
    row("all of it", time.monotonic() - begun, "")
    shutil.rmtree(state)
    return 0


def run_up(settings: Settings) -> int:
    """Runs the lab until a signal. The exit status is 0 if everything then stopped by itself."""
    lab = Lab(settings, say=lambda text: print(f"{text} ...", flush=True))
    try:
        with stopped_by_signals(lab):
            try:
                with lab:
                    print(welcome(lab), flush=True)
                    while True:
                        lab.check_alive()
                        time.sleep(0.5)
            except KeyboardInterrupt:
                pass
    except LabError as error:
        return failed(str(error), lab)
    if lab.problems:
        return failed("not everything stopped by itself: " + "; ".join(lab.problems), lab)
    print("\nstopped; no process, no port and no lease is left")
    return 0


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
            f"  Logs are in {settings.logs}. Ctrl-C stops everything.",
            "",
        ]
    )


def row(title: str, seconds: float, seen: str) -> None:
    shown = seen if len(seen) <= SEEN_WIDTH else seen[: SEEN_WIDTH - 4] + " ..."
    print(f"{title:{TITLE_WIDTH}} {seconds:6.1f} s  {shown}".rstrip(), flush=True)


def failed(reason: str, lab: Lab) -> int:
    print(f"\nFAILED: {reason}\nThe logs are in {lab.settings.logs}", file=sys.stderr)
    return 1


@contextmanager
def stopped_by_signals(lab: Lab) -> Iterator[None]:
    """The first SIGINT, SIGTERM or SIGHUP ends the block as a Ctrl-C does; the second ends all at once."""
    seen = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        if seen:
            lab.abandon()
            os._exit(128 + number)
        seen = True
        print("\nstopping (once more to stop at once) ...", file=sys.stderr, flush=True)
        raise KeyboardInterrupt

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, on_signal) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
