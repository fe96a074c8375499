"""Runs submissions, each in a process of its own, some at once; whatever ends this ends them too."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpu_kernels.errors import GPUKernelsError
from gpu_kernels.grading import strays
from gpu_kernels.grading.submissions import LONGEST_TEXT, RESULTS, Report, Submission, Verdict

WORKER = [sys.executable, "-P", "-m", "gpu_kernels.grading.worker"]
LISTENS_EACH_S = 1.0
"""A signal that comes just before a wait begins is heard when it is over: Ctrl-C must not wait for a run."""
ENDS_WITHIN_S = 15.0
LOG_TAIL = 4000
LONGEST_ANSWER = 1 << 20


class WorkerFailed(GPUKernelsError):
    """A worker ended without an answer."""

    code = "worker_failed"


class Runner:
    """``environment``: that of the workers. ``longest``: seconds that one submission may take.

    ``logs``: a folder for what workers say; None where nobody wants it.
    """

    def __init__(self, environment: Mapping[str, str], longest: float, logs: Path | None = None) -> None:
        self._environment = dict(environment)
        self._longest = longest
        self._logs = logs
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False
        strays.come_to_us()
        self._not_ours = set(strays.children())

    def run(
        self,
        submissions: Sequence[Submission],
        parallel: int,
        told: Callable[[Submission, Verdict], object],
        again: bool = False,
    ) -> Report:
        """All of them; ``told`` is called with each verdict, in the caller's thread. ``again``: also those
        that are done already.
        """
        report = Report({submission.name: Verdict("failed", "It was not run.") for submission in submissions})
        pool = ThreadPoolExecutor(parallel, thread_name_prefix="gpu-grade")
        try:
            waiting: dict[Future[Verdict], Submission] = {}
            for submission in submissions:
                if submission.done_before and not again:
                    report.verdicts[submission.name] = verdict = Verdict("skipped")
                    told(submission, verdict)
                else:
                    waiting[pool.submit(self._judge, submission)] = submission
            while waiting:
                for future in wait(waiting, LISTENS_EACH_S, return_when=FIRST_COMPLETED).done:
                    submission = waiting.pop(future)
                    report.verdicts[submission.name] = future.result()
                    told(submission, future.result())
        except BaseException:
            self._stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        return report

    def _judge(self, submission: Submission) -> Verdict:
        began = time.monotonic()
        try:
            answer = self.ask(submission.task, submission.name)
            return _believed(answer, submission, time.monotonic() - began)
        except WorkerFailed as error:
            return Verdict("failed", error.message, seconds=time.monotonic() - began)
        except OSError as error:  # its folder or its log was taken away, perhaps by itself
            return Verdict("failed", f"It could not be run: {error}", seconds=time.monotonic() - began)

    def ask(self, task: Mapping[str, Any], name: str) -> dict[str, Any]:
        """What a worker answers to a task: any JSON object, since a submission may have written it. Raises
        ``WorkerFailed``.
        """
        with tempfile.TemporaryDirectory(prefix="gpu-grade-", ignore_cleanup_errors=True) as folder:
            answer, log_path = Path(folder) / "answer.json", self._log_path(name, Path(folder))
            with log_path.open("wb") as log:
                process = self._start([*WORKER, str(answer)], log)
                try:
                    process.communicate(json.dumps(task).encode(), self._longest)
                    late = False
                except subprocess.TimeoutExpired:
                    late = True
                    _end(process)
                finally:
                    with self._lock:  # no worker is started meanwhile that would look like a stray
                        self._running.discard(process)
                        strays.end({*self._not_ours, *(other.pid for other in self._running)})
            said = _read(answer)
            if said is not None and not (late and said.get("result") != "done"):
                return said
            if late:
                raise WorkerFailed(f"It took longer than {self._longest:g} s, and was ended.")
            with log_path.open("rb") as log:
                log.seek(max(0, log_path.stat().st_size - LOG_TAIL))
                tail = log.read().decode(errors="replace").strip().splitlines()[-3:]
            last = "\n".join(tail) or "it said nothing"
            raise WorkerFailed(f"It ended without an answer (status {process.returncode}): {last}")

    def _log_path(self, name: str, folder: Path) -> Path:
        if self._logs is None:
            return folder / "log"
        path = self._logs / f"{name}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _start(self, command: Sequence[str], log: Any) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise WorkerFailed("It was not run.")
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=self._environment,
                start_new_session=True,
            )  # fmt: skip
            self._running.add(process)
            return process

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            process.terminate()
        for process in running:
            _end(process)


def _read(answer: Path) -> dict[str, Any] | None:
    """The JSON object in a file of a worker's; None where there is none. Whatever was put there instead must
    neither hold this up nor fill its memory.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW
    with suppress(OSError, ValueError, RecursionError), open(os.open(answer, flags), "rb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            text = file.read(LONGEST_ANSWER + 1)
            said = json.loads(text) if len(text) <= LONGEST_ANSWER else None
            return said if isinstance(said, dict) else None
    return None


def _believed(answer: Mapping[str, Any], submission: Submission, seconds: float) -> Verdict:
    """Raises ``WorkerFailed`` for what no worker answers."""
    result, text, errors = (answer.get(name) for name in ("result", "text", "errors"))
    if result not in RESULTS or not isinstance(text, str) or type(errors) is not int:
        raise WorkerFailed("Its worker gave no valid answer: the submission may have tampered with it.")
    if result == "done" and submission.written is not None and not submission.written.is_file():
        raise WorkerFailed("It is reported as done, but its result is missing.")
    return Verdict(result, text[:LONGEST_TEXT], errors, seconds)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, so that its kernel gives its slice back, and see to it."""
    process.terminate()
    try:
        process.wait(ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
