"""The addresses of the API below ``/api/v1``, and whose they are. A new part of the API adds its lines."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpu_kernels.pool.service import agents, leases, pool
from gpu_kernels.pool.service.base import Handler


@dataclass(frozen=True, slots=True)
class Parameter:
    """A part of an address that varies; ``pattern`` is what one may be, ``example`` one that is."""

    pattern: str
    description: str
    example: str


PARAMETERS: dict[str, Parameter] = {
    "lease_id": Parameter(r"[A-Za-z0-9_-]{1,64}", "A lease's id", "f00"),
    "name": Parameter(r"[^/]{1,255}", "Name of the course, as its group in the hub, or of the agent", "gpu1"),
}
"""By its name in braces; also the name of the argument of the handler's methods."""

ROUTES: list[tuple[str, type[Handler]]] = [
    ("/leases", leases.Leases),
    ("/leases/renew", leases.Renew),
    ("/leases/release", leases.ReleaseServer),
    ("/leases/{lease_id}", leases.OneLease),
    ("/leases/{lease_id}/release", leases.Release),
    ("/leases/{lease_id}/revoke", leases.Revoke),
    ("/pool", pool.Pool),
    ("/courses", pool.Courses),
    ("/courses/{name}", pool.OneCourse),
    ("/agents", agents.Agents),
    ("/agents/{name}", agents.OneAgent),
    ("/agents/{name}/report", agents.Report),
    ("/health", pool.Health),
    ("/metrics", pool.MetricsPage),
]
"""Address and handler; the first that matches is asked, so that a fixed word comes before a parameter."""


def pattern_of(path: str) -> str:
    """The regular expression of an address, with a group for each parameter."""
    return re.sub(r"\{(\w+)\}", lambda found: f"(?P<{found[1]}>{PARAMETERS[found[1]].pattern})", path)


def example_of(path: str) -> str:
    """The address with an example in the place of each parameter."""
    return re.sub(r"\{(\w+)\}", lambda found: PARAMETERS[found[1]].example, path)
