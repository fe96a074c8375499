"""Runs a suite's files in processes, a bounded number at a time, and gathers what their tests did.

A file has a process of its own and, forwarded, a worker of its own. A test that goes on too long is killed
with its process; after that, as after a test that kills its process, the file goes on in a new one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .places import Process
from .suite import Suite

ROOT = Path(__file__).resolve().parents[2]
TEST_SECONDS = 180.0
"""The longest that a test may take."""
START_SECONDS = 180.0
"""The longest that a process may take until its first test begins."""
PROCESSES_A_FILE = 20
"""A file that needs more has something wrong with it that no list should get used to."""


@dataclass(frozen=True)
class Result:
    """What became of a test. ``outcome``: passed, failed, refused, skipped, xfailed, died or hung."""

    name: str
    outcome: str
    reason: str
    seconds: float


@dataclass
class Run:
    """A suite with how and where to run it."""

    suite: Suite
    process: Process
    processes: int = os.cpu_count() or 2
    test_seconds: float = TEST_SECONDS
    files: Collection[str] = ()
    """Names of files; empty for all."""
    told: Callable[[Path, list[Result]], None] = lambda path, results: None

    def results(self) -> list[Result]:
        files = [path for path in self.suite.files() if self._is_wanted(path)]
        # Long files first, so that no process works alone at the end; the size says enough.
        files.sort(key=lambda path: -path.stat().st_size)
        with ThreadPoolExecutor(self.processes) as pool:
            found = [result for results in pool.map(self._file, files) for result in results]
        return sorted(found, key=lambda result: result.name)

    def _is_wanted(self, path: Path) -> bool:
        return not self.files or str(path.relative_to(self.suite.root)) in self.files

    def _file(self, path: Path) -> list[Result]:
        results: dict[str, Result] = {}
        file = str(path.relative_to(self.suite.root))
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            for _ in range(PROCESSES_A_FILE):
                before = len(results)
                ended = self._process(path, Path(folder), results)
                if ended or len(results) == before:
                    break
        if not ended:
            results[file] = Result(file, "died", "the rest of the file was not run", 0.0)
        self.told(path, list(results.values()))
        return list(results.values())

    def _process(self, path: Path, folder: Path, results: dict[str, Result]) -> bool:
        """Runs what is not in ``results`` yet; whether the file came to its end."""
        record, done, output = folder / "record", folder / "done", folder / "output"
        record.write_text("")
        done.write_text("\n".join(results))
        with self.process() as given, _own_home(folder) as own, output.open("wb") as out:
            process = subprocess.Popen(
                self._command(path, record, done),
                env=given | self.suite.environment | own,
                cwd=own["HOME"],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
            hung = _watch(process, record, self.test_seconds)
        ended, running = _read(record, results)
        if running is None and process.returncode < 0 and not hung:
            running = str(path.relative_to(self.suite.root))
        if running is not None:
            how = f"no end after {self.test_seconds:.0f} s" if hung else _how_it_ended(process.returncode)
            tail = output.read_text(errors="replace")[-3000:]
            results[running] = Result(running, "hung" if hung else "died", f"{tail}\n{how}", 0.0)
        return ended

    def _command(self, path: Path, record: Path, done: Path) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-q", "--assert=plain", "-c", os.devnull]
        for plugin in ("tests.conformance.recorder", "no:cacheprovider", "no:asyncio", "no:timeout"):
            command += ["-p", plugin]
        # A suite may lie elsewhere than the package it belongs to, as numba-cuda's does.
        command += ["--import-mode=importlib", "-o", "consider_namespace_packages=true"]
        command += ["--rootdir", str(self.suite.root)]
        return [*command, f"--conformance-record={record}", f"--conformance-done={done}", str(path)]


@contextmanager
def _own_home(folder: Path) -> Iterator[dict[str, str]]:
    """A process must find nothing that another has left: a cache of compiled kernels, for one."""
    with tempfile.TemporaryDirectory(dir=folder) as home:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        yield {"HOME": home, "TMPDIR": home, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def _watch(process: subprocess.Popen[bytes], record: Path, seconds: float) -> bool:
    """Waits for the end; kills the process and all it started if its record stands still. Whether it did."""
    size, since, hung = 0, time.monotonic(), False
    while True:
        try:
            process.wait(1)
            break
        except subprocess.TimeoutExpired:
            now, grown = time.monotonic(), record.stat().st_size
            if grown != size:
                size, since = grown, now
            if now - since > (seconds if size else START_SECONDS):
                hung = True
                break
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return hung


def _read(record: Path, results: dict[str, Result]) -> tuple[bool, str | None]:
    """Adds what has ended to ``results``; whether the file came to its end, and the test that had not."""
    running, ended = None, False
    for line in record.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:  # cut off as its writer died
            break
        if "start" in entry:
            running = entry["start"]
        elif "name" in entry:
            results[entry["name"]] = Result(**entry)
            running = None
        else:
            ended = entry["whole"]
    return ended, running


def _how_it_ended(code: int) -> str:
    return (
        f"the process died of {signal.Signals(-code).name}" if code < 0 else f"the process ended with {code}"
    )
