"""A student's visit, from the login to the kernel's end, each stage timed; and all visits side by side."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gpu_kernels.cli import vector_add
from gpu_kernels.hub_config.lab.accounts import Login
from gpu_kernels.hub_config.lab.kernel_channel import KernelChannel
from gpu_kernels.hub_config.lab.student import Refused, Student
from gpu_kernels.kernelspecs import spec_name

SIZE = "0.02 V100"
NOTEBOOK = "first_steps.ipynb"
PATIENCE_S = 300.0
"""How long a browser waits for an answer, and a student for a cell."""

LEAVING = 0.2
"""They leave in the order in which they came, in this part of the time."""

STAGES = {
    "log in": "the login page and its form",
    "start server": "from the button to the end of the progress bar",
    "open lab": "JupyterLab's page, with the sign-in through the hub",
    "start kernel": "from the request for a session to the kernel's first reply",
    "get slice": "cuInit and a context in a cell: the slice, and a worker for it",
    "run cell": "two vectors added on the GPU by a kernel in PTX",
    "see page": "the lab page of the student's own kernels, with its sign-in",
    "stop kernel": "until the server says that it is gone",
}

GET_SLICE = """
import ctypes
driver, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
print([driver.cuInit(0), driver.cuDeviceGet(ctypes.byref(device), 0),
       driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)])
"""
ADD_VECTORS = Path(vector_add.__file__).read_text()


@dataclass
class Visit:
    """How it went for one student. ``refused``: somebody said no; ``lost``: something broke, or no answer."""

    name: str
    seconds: dict[str, float] = field(default_factory=dict)
    refused: str = ""
    lost: str = ""
    begun: float = 0.0
    ran: float = 0.0
    """When the cell had run, in seconds after the start of all."""


class Wrong(Exception):
    """An answer came, and was not the right one."""


class Visits:
    """All students, each in a thread. Who has run the cell waits until all have, so that all slices are held
    at once. ``when_lost`` is called with a visit that came to nothing, while all is as it was.
    """

    def __init__(
        self,
        url: str,
        logins: list[Login],
        arrivals: tuple[float, ...],
        when_lost: Callable[[Visit], None] = lambda visit: None,
    ) -> None:
        self._url = url
        self._when_lost = when_lost
        self._logins = logins
        self._arrivals = arrivals
        self._start = 0.0
        self._gate = threading.Barrier(len(logins))
        self.visits = [Visit(login.name) for login in logins]

    def run(self) -> None:
        """Returns when everybody has gone."""
        self._start = time.monotonic()
        threads = [
            threading.Thread(target=self._visit, args=each, name=each[0].name, daemon=True)
            for each in zip(self._logins, self._arrivals, self.visits, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    @property
    def so_far(self) -> float:
        return time.monotonic() - self._start

    def _visit(self, login: Login, arrival: float, visit: Visit) -> None:
        time.sleep(max(0.0, arrival - self.so_far))
        visit.begun = self.so_far
        with Student(self._url, login, PATIENCE_S) as student:
            came_through = False
            with self._failures(visit):
                channel, session = self._until_cell(student, visit)
                came_through = True
                visit.ran = self.so_far
            self._gate.wait()
            if not came_through:
                return
            time.sleep(arrival * LEAVING)
            with self._failures(visit), channel:
                with timed(visit, "see page"):
                    student.open_page("/services/gpu-lab/")
                with timed(visit, "stop kernel"):
                    student.end_session(session)

    def _until_cell(self, student: Student, visit: Visit) -> tuple[KernelChannel, str]:
        with timed(visit, "log in"):
            student.log_in()
        with timed(visit, "start server"):
            student.start_server()
        with timed(visit, "open lab"):
            student.open_lab()
        with timed(visit, "start kernel"):
            session = student.start_kernel(spec_name(SIZE), NOTEBOOK)
            channel = student.channel(session["kernel"]["id"])
            channel.kernel_info(PATIENCE_S)
        with timed(visit, "get slice"):
            self._run(channel, GET_SLICE, "[0, 0, 0]")
        with timed(visit, "run cell"):
            self._run(channel, ADD_VECTORS, "655 MiB")
        return channel, session["id"]

    @staticmethod
    def _run(channel: KernelChannel, code: str, expected: str) -> None:
        result = channel.execute(code, PATIENCE_S)
        if result.error or expected not in result.text:
            raise Wrong(f"a cell gave {result.error or result.text!r} instead of {expected!r}")

    @contextlib.contextmanager
    def _failures(self, visit: Visit) -> Iterator[None]:
        try:
            yield
        except Refused as error:
            visit.refused = f"after {self.so_far:.0f} s, {stage_of(visit)}: {error.status}: {error}"
        except Exception as error:
            visit.lost = f"after {self.so_far:.0f} s, {stage_of(visit)}: {type(error).__name__}: {error}"
            self._when_lost(visit)


def stage_of(visit: Visit) -> str:
    """The stage that is not over."""
    return next((f"at '{stage}'" for stage in STAGES if stage not in visit.seconds), "at the end")


@contextlib.contextmanager
def timed(visit: Visit, stage: str) -> Iterator[None]:
    begun = time.monotonic()
    yield
    visit.seconds[stage] = time.monotonic() - begun
