"""The student's path: from the login to the slice coming back, each step checked where it can be seen.

`make demo` prints it as a table; the end-to-end test runs it as a test. Everything goes over HTTP and
websockets as a browser's traffic would; only what no student can see (the ledger, the processes) is read
as the lab's operator.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gpu_kernels.client import Lease
from gpu_kernels.hub_config.lab import accounts
from gpu_kernels.hub_config.lab.kernel_channel import CellResult, KernelChannel
from gpu_kernels.hub_config.lab.processes import LabError, marked_commands
from gpu_kernels.hub_config.lab.student import Refused, Student
from gpu_kernels.hub_config.lab.supervisor import Lab, wait

SPEC = "python3-gpu-0.02-v100"
NOTEBOOK = "first_steps.ipynb"
CARDS = {"Python 3", "Python 3 (0.02 V100)", "Python 3 (0.1 V100)", "Python 3 (1 V100)"}
THOUSANDTHS = 20
LEASE_WAIT = 60.0


class StepFailed(LabError):
    """A step of the path did not do what it should; the text says what was seen instead."""


@dataclass(frozen=True)
class Step:
    """One row of the table; `seen` is what showed that it went well."""

    title: str
    seconds: float
    seen: str


@dataclass(frozen=True)
class Section:
    """The part of a notebook under one heading; `breaks` if its last cell is meant to fail."""

    heading: str
    cells: tuple[str, ...]
    breaks: bool


class StudentPath:
    """Walks the path in a running lab. Each step relies on those before it."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        logins = accounts.logins(lab.settings.secrets)
        self._student = Student(lab.settings.url, logins["ana"])
        self._instructor = Student(lab.settings.url, logins[accounts.INSTRUCTOR])
        self._session: dict[str, Any] = {}
        self._channel: KernelChannel | None = None
        self._lease = ""

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._student.close()
        self._instructor.close()

    def walk(self) -> Iterator[Step]:
        """Yields each step when it is done. Raises StepFailed, Refused, TimeoutError or ConnectionError."""
        yield self._timed(f"the instructor limits {accounts.COURSE} to 0.02 V100", self._set_limit)
        yield self._timed("log in", self._log_in)
        yield self._timed("start a server, open JupyterLab", self._start_server)
        yield self._timed("list the kernel specs", self._list_specs)
        yield self._timed("start Python 3 (0.02 V100)", self._start_kernel)
        sections = [part for part in read_sections(self._student.open_notebook(NOTEBOOK)) if part.cells]
        for number, section in enumerate(sections):
            yield self._timed(f"notebook: {section.heading}", partial(self._run, section))
            if number == 1:
                yield self._timed("look at the ledger", self._see_lease)
        yield self._timed("restart the kernel", partial(self._restart, sections[:2]))
        yield self._timed("start a second kernel at the limit", self._second_kernel)
        yield self._timed("shut the kernel down", self._shut_down)
        yield self._timed("stop the server", self._stop_server)

    def _timed(self, title: str, action: Callable[[], str]) -> Step:
        begun = time.monotonic()
        try:
            seen = action()
        except Refused as refusal:
            raise StepFailed(f"{title}: refused with HTTP {refusal.status}: {refusal}") from refusal
        except (LabError, TimeoutError, ConnectionError) as error:
            raise StepFailed(f"{title}: {error}") from error
        return Step(title, time.monotonic() - begun, seen)

    def _set_limit(self) -> str:
        self._instructor.log_in()
        with self._instructor.pool_client(self._lab.settings.controller_url) as pool:
            pool.set_limit(accounts.COURSE, {self._lab.settings.gpu_class: THOUSANDTHS})
        return f"by {self._instructor.name}, with a token of the hub"

    def _log_in(self) -> str:
        self._student.log_in()
        return f"as {self._student.name}"

    def _start_server(self) -> str:
        messages = self._student.start_server()
        self._student.open_lab()
        return messages[-1]

    def _list_specs(self) -> str:
        cards = set(self._student.kernel_specs().values())
        expect(cards == CARDS, f"the launcher would show {sorted(cards)} instead of {sorted(CARDS)}")
        return f"{len(cards)} cards"

    def _start_kernel(self) -> str:
        self._session = self._student.start_kernel(SPEC, NOTEBOOK)
        self._channel = self._student.channel(self._session["kernel"]["id"])
        info = self._channel.kernel_info()
        return f"{info['implementation']} {info['implementation_version']} answers"

    def _see_lease(self) -> str:
        wait(lambda: self._states() == ["active"], LEASE_WAIT, "there is not one active lease")
        (lease,) = self._lab.leases()
        (gpu,) = self._lab.gpus()
        mib = gpu.allocatable_mib * THOUSANDTHS // 1000
        held = f"{lease.thousandths} thousandths and {lease.mib} MiB, charged to {lease.course}"
        expect((lease.thousandths, lease.mib, lease.course) == (THOUSANDTHS, mib, accounts.COURSE), held)
        self._lease = lease.id
        return f"1 active lease: {held}"

    def _run(self, section: Section) -> str:
        results = [self._execute(code) for code in section.cells]
        *fine, last = results
        for result in fine if section.breaks else results:
            expect(result.error is None, f"a cell failed with {result.error}\n{plain_end(result.traceback)}")
        if section.breaks:
            expect("ILLEGAL_ADDRESS" in str(last.error), f"it ended with {last.error}")
            return str(last.error)
        return last_line(last.text)

    def _restart(self, sections: list[Section]) -> str:
        assert self._channel is not None
        kernel = self._session["kernel"]["id"]
        self._student.restart_kernel(kernel)
        # As JupyterLab does: what the new kernel publishes before the old channel has found it is lost.
        self._channel.close()
        self._channel = self._student.channel(kernel)
        self._channel.kernel_info()
        for section in sections:
            self._run(section)
        held = [lease.id for lease in self._lab.leases()]
        expect(held == [self._lease], f"the leases are {held} instead of {[self._lease]}")
        return "the GPU works again, on the same lease"

    def _second_kernel(self) -> str:
        second = self._student.start_kernel(SPEC, "second.ipynb")
        wait(
            lambda: len(self._waiting()) == 1,
            LEASE_WAIT,
            "no kernel waits, although the course is at its limit",
        )
        (queued,) = self._waiting()
        self._student.end_session(second["id"])
        wait(lambda: len(self._lab.leases()) == 1, LEASE_WAIT, "the kernel that waited left its request")
        return f"it starts, and waits for its GPU as number {queued.position}; then it is shut down"

    def _shut_down(self) -> str:
        assert self._channel is not None
        self._channel.close()
        self._student.end_session(self._session["id"])
        wait(lambda: not self._lab.leases(), LEASE_WAIT, "the lease is still there")
        (gpu,) = self._lab.gpus()
        used = (gpu.used_mib, gpu.used_thousandths)
        expect(used == (0, 0), f"the ledger reads {used} used")
        workers = marked_commands(self._lab.settings.marker, "gpu-worker")
        expect(not workers, f"workers live: {workers}")
        return "the ledger reads zero used, no worker lives"

    def _stop_server(self) -> str:
        self._student.stop_server()
        expect(not self._lab.running_servers(), "the server still runs")
        return "stopped"

    def _waiting(self) -> list[Lease]:
        return [lease for lease in self._lab.leases() if lease.queued]

    def _states(self) -> list[str]:
        return [lease.state for lease in self._lab.leases()]

    def _execute(self, code: str) -> CellResult:
        assert self._channel is not None
        return self._channel.execute(code)


def read_sections(notebook: dict[str, Any]) -> list[Section]:
    """The notebook's code by heading. A cell tagged `raises-exception` is meant to fail."""
    sections: list[Section] = []
    heading, cells, breaks = Path(NOTEBOOK).stem, [], False
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cells.append(cell["source"])
            breaks = "raises-exception" in cell["metadata"].get("tags", [])
        elif cell["source"].startswith("#"):
            sections.append(Section(heading, tuple(cells), breaks))
            heading, cells, breaks = cell["source"].splitlines()[0].lstrip("# "), [], False
    return [*sections, Section(heading, tuple(cells), breaks)]


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "done"


def plain_end(traceback: str, lines: int = 15) -> str:
    """The end of a traceback, without the colours."""
    return "\n".join(re.sub(r"\x1b\[[0-9;]*m", "", traceback).splitlines()[-lines:])


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise StepFailed(otherwise)
