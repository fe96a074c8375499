"""How long the lab pages take that show 500 students and 2,000 leases: from the request to the last byte.

The controller is a process of its own, on loopback, with its ledger on disk; the pages run in this one. Each
figure is over ten loads, one after the other. A fragment is what a page that is live asks for when something
has changed.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import Figure, main, median
from benchmarks.pool_rig import Controller
from gpu_kernels.client import AsyncPoolClient, Slot
from tests.pages.site import Site, Visitor

STUDENTS, EACH = 500, 4
SIZE = "0.005 V100"
AT_ONCE = 20
LOADS = 10
AIM_S = 1.0


def whose(token: str) -> dict[str, object]:
    scopes = {"admin": ["custom:gpu:admin:pool"]}.get(token, ["custom:gpu:use"])
    groups = {"admin": [], "teacher": ["bench-instructors"]}.get(token, ["bench"])
    return {"name": token, "scopes": scopes, "groups": groups}


async def open_notebooks(url: str, students: int) -> None:
    """Each student opens so many."""
    room = asyncio.Semaphore(AT_ONCE)

    async def student(number: int) -> None:
        async with room, AsyncPoolClient(url, f"student{number}", timeout=60.0) as pool:
            for notebook in range(EACH):
                path = f"week{notebook}/exercise.ipynb"
                await pool.ask(SIZE, key=path, slot=Slot("", path), holder="h")

    await asyncio.gather(*(student(number) for number in range(students)))


def seconds(load: Callable[[], object], loads: int) -> float:
    load()
    samples = []
    for _ in range(loads):
        started = time.perf_counter()
        load()
        samples.append(time.perf_counter() - started)
    return median(samples)


def measure(smallest: bool) -> list[Figure]:
    students, loads = (8, 1) if smallest else (STUDENTS, LOADS)
    with (
        tempfile.TemporaryDirectory() as name,
        Controller(Path(name), students, lease_ttl=3600) as controller,
    ):
        asyncio.run(open_notebooks(controller.url, students))
        with (
            Site(controller.url, Path(name), whose) as site,
            Visitor(site, "teacher") as teacher,
            Visitor(site, "admin") as admin,
            Visitor(site, "student7") as student,
        ):
            assert f"student{students - 1}" in teacher.see("courses/bench").text
            pages = {
                "a student's page": lambda: student.see(""),
                "the course's page": lambda: teacher.see("courses/bench"),
                "its table of students, live": lambda: teacher.parts("courses/bench", "students"),
                "the pool's page": lambda: admin.see("pool"),
                "its picture of GPUs, live": lambda: admin.parts("pool", "gpus"),
            }
            return [
                Figure(
                    f"{name}, {students} students, {students * EACH} leases",
                    seconds(load, loads),
                    "s",
                    "lower",
                    AIM_S,
                )
                for name, load in pages.items()
            ]


if __name__ == "__main__":
    main(measure, __doc__)
