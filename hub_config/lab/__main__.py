"""`python -m gpu_kernels.hub_config.lab`: what `make demo` runs: a student's path, told as a table."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from gpu_kernels.hub_config.lab.processes import LabError
from gpu_kernels.hub_config.lab.settings import Settings, SettingsError
from gpu_kernels.hub_config.lab.student_path import StudentPath
from gpu_kernels.hub_config.lab.supervisor import Lab
from gpu_kernels.hub_config.lab.up import failed, stopped_by_signals

TITLE_WIDTH = 46
SEEN_WIDTH = 96


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
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    except LabError as error:
        return failed(str(error), lab)
    if lab.problems:
        return failed("not everything stopped by itself: " + "; ".join(lab.problems), lab)
    row("all of it", time.monotonic() - begun, "")
    shutil.rmtree(state)
    return 0


def row(title: str, seconds: float, seen: str) -> None:
    shown = seen if len(seen) <= SEEN_WIDTH else seen[: SEEN_WIDTH - 4] + " ..."
    print(f"{title:{TITLE_WIDTH}} {seconds:6.1f} s  {shown}".rstrip(), flush=True)


if __name__ == "__main__":
    sys.exit(demo())
