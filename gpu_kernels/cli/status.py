"""``jupyter gpu status``: own leases, the pool, the courses."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import asdict

from gpu_kernels.cli.tables import json_text, table
from gpu_kernels.client import Lease, PoolClient
from gpu_kernels.exits import Exit
from gpu_kernels.resources.courses import Course
from gpu_kernels.resources.pool import PoolGpu
from gpu_kernels.units import THOUSANDTHS, thousandths_text

LEASE_COLUMNS = ("lease", "size", "state", "memory", "device", "server", "for", "ends in")
COURSE_COLUMNS = ("course", "in use", "limit")
EPILOG = """\
examples:
  jupyter gpu status
  jupyter gpu status --json | jq '.leases[].id'
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows your leases, what the pool has, and what your courses may hold."
    parser.epilog = EPILOG
    parser.add_argument(
        "--json", action="store_true", help="for programs: one JSON object on standard output"
    )


def execute(options: argparse.Namespace) -> int:
    with PoolClient.from_environment() as client:
        leases, pool, courses = client.list(), client.pool(), client.courses()
    if options.json:
        facts = {"leases": [_lease_facts(lease) for lease in leases], "pool": pool, "courses": courses}
        print(json_text(facts))
        return Exit.OK
    print("Your leases")
    print(table(LEASE_COLUMNS, map(_lease_row, leases)))
    print("\nPool")
    print(table(("GPU", "is", "memory free", "compute free", ""), map(_gpu_row, pool.gpus)))
    print("\nCourses")
    print(table(COURSE_COLUMNS, course_rows(courses)))
    return Exit.OK


def _lease_facts(lease: Lease) -> dict[str, Any]:
    """What may be shown of a lease: all but its secret."""
    return {
        "id": lease.id,
        "state": lease.state,
        "size": lease.size,
        "course": lease.course,
        "device": lease.device,
        "mib": lease.mib,
        "thousandths": lease.thousandths,
        "agent": lease.agent_name,
        "slot": asdict(lease.slot),
        "expires_in": lease.expires_in,
        "preempt_in": lease.preempt_in,
        "class_hour": lease.class_hour,
        "position": lease.position,
    }


def _lease_row(lease: Lease) -> Sequence[str]:
    state = f"{lease.state}, number {lease.position}" if lease.queued and lease.position else lease.state
    if lease.class_hour is not None:
        state += ", class seat"
    ends = "" if lease.expires_in is None else f"{lease.expires_in:.0f} s"
    if lease.preempt_in is not None:
        ends += f", for a class in {lease.preempt_in / 60:.0f} min"
    return (
        lease.id,
        lease.size,
        state,
        f"{lease.mib} MiB",
        lease.device or "",
        lease.agent_name or "",
        lease.slot.path,
        ends,
    )


def _gpu_row(gpu: PoolGpu) -> Sequence[str]:
    free_mib = gpu.allocatable_mib - gpu.used_mib
    free = thousandths_text(THOUSANDTHS - gpu.used_thousandths, gpu.gpu_class)
    state = "" if gpu.available else "takes nothing new"
    return (
        f"{gpu.agent}/{gpu.index}",
        gpu.name,
        f"{free_mib} of {gpu.allocatable_mib} MiB",
        free,
        state,
    )


def course_rows(courses: Iterable[Course]) -> Iterator[Sequence[str]]:
    for course in courses:
        limits, holds = course.limits, course.holds
        for c in sorted({*limits, *holds}):
            yield course.name, thousandths_text(holds.get(c, 0), c), thousandths_text(limits.get(c, 0), c)
