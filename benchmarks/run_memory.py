"""What a program under ``jupyter gpu run`` costs beside itself for as long as it runs.

A run's memory is that of its processes without the program's own, a ``sleep``. Of one run that is what they
have for themselves, and the files that they map (the interpreter's text above all) once, as if nobody else
had them open. Of several at the same time it is the proportional share (PSS), in which what all have in
common counts once for all, the largest of theirs. Controller and agent are real processes on loopback.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from benchmarks.figures import Figure, main
from benchmarks.kernel_start import COURSE, start_pool

RUNS = 12
KIB = 1024
"""In a MiB."""
STARTS_WITHIN_S = 120.0


def measure(smallest: bool) -> list[Figure]:
    environ = {name: text for name, text in os.environ.items() if not name.startswith(("JUPYTER", "JPY_"))}
    tokens = {name: secrets.token_hex(16) for name in ("student", "agent")}
    with (
        tempfile.TemporaryDirectory(prefix="gpu-kernels-bench-") as folder,
        contextlib.ExitStack() as stack,
    ):
        url = start_pool(stack, Path(folder), environ, tokens)
        environ |= {"GPU_KERNELS_CONTROLLER": url, "GPU_KERNELS_TOKEN": tokens["student"]}
        environ["GPU_KERNELS_COURSE"] = COURSE
        with _runs(1, environ) as (alone,):
            one = _memory(alone)
        with _runs(1 if smallest else RUNS, environ) as several:
            share = max(sum(each["Pss"] for each in _memory(run)) for run in several)
    whole = sum(each["Pss_Anon"] for each in one) + max(each["Rss"] - each["Anonymous"] for each in one)
    return [
        Figure("run, memory beside its program, alone on its machine", whole / KIB, "MiB", "lower", aim=10.0),
        Figure("run, memory beside its program, of several", share / KIB, "MiB", "lower", aim=10.0),
        Figure("run, its largest process", max(each["Rss"] for each in one) / KIB, "MiB", "lower"),
    ]


@contextlib.contextmanager
def _runs(count: int, environ: dict[str, str]) -> Iterator[list[psutil.Process]]:
    """So many at the same time, each once its program runs."""
    command = [sys.executable, "-m", "gpu_kernels.cli", "run", "-p", "0.02", "--", "sleep", "600"]
    started = [subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL) for _ in range(count)]
    try:
        runs = [psutil.Process(each.pid) for each in started]
        end = time.monotonic() + STARTS_WITHIN_S
        while not all(any(map(_is_program, run.children(recursive=True))) for run in runs):
            if time.monotonic() > end:
                raise TimeoutError("a program under jupyter gpu run did not start")
            time.sleep(0.05)
        yield runs
    finally:
        for each in started:
            each.terminate()
        for each in started:
            each.wait()


def _is_program(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.name() == "sleep"
    return False


def _memory(run: psutil.Process) -> list[dict[str, int]]:
    """Of each process of a run what the kernel says of all its mappings together, in KiB."""
    ours = [run, *(child for child in run.children(recursive=True) if not _is_program(child))]
    found = []
    for process in ours:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()[1:]
        found.append(
            {name: int(size.split()[0]) for name, _, size in (line.partition(":") for line in lines)}
        )
    return found


if __name__ == "__main__":
    main(measure, __doc__)
