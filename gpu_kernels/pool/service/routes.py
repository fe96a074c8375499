"""The addresses of the API below ``/api/v1``, and whose they are. A new part of the API adds its lines."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpu_kernels.pool.service import (
    accounts,
    agent_tokens,
    agents,
    audit,
    class_hours,
    events,
    leases,
    pool,
    teaching,
    usage,
    why,
)
from gpu_kernels.pool.service.base import Handler


@dataclass(frozen=True, slots=True)
class Parameter:
    """A part of an address that varies; ``pattern`` is what one may be, ``example`` one that is."""

    pattern: str
    description: str
    example: str


PARAMETERS: dict[str, Parameter] = {
    "lease_id": Parameter(r"[A-Za-z0-9_-]{1,64}", "A lease's id", "f00"),
    "class_hour_id": Parameter(r"[A-Za-z0-9_-]{1,64}", "A class hour's id", "b3f0"),
    "name": Parameter(
        r"[^/]{1,255}", "Name of the course or account, as its group in the hub, or of the agent", "gpu1"
    ),
    "token_id": Parameter(r"[A-Za-z0-9_-]{1,64}", "A GPU server's token, as it is listed", "5e5e5e5e5e5e"),
    "gpu_class": Parameter(r"[A-Za-z][A-Za-z0-9._-]{0,31}", "A GPU class", "V100"),
}
"""By its name in braces; also the name of the argument of the handler's methods."""

ROUTES: list[tuple[str, type[Handler]]] = [
    ("/leases", leases.Leases),
    ("/leases/renew", leases.Renew),
    ("/leases/release", leases.ReleaseServer),
    ("/leases/{lease_id}", leases.OneLease),
    ("/leases/{lease_id}/release", leases.Release),
    ("/leases/{lease_id}/revoke", leases.Revoke),
    ("/leases/{lease_id}/why", why.Why),
    ("/pool", pool.Pool),
    ("/courses", pool.Courses),
    ("/courses/{name}", pool.OneCourse),
    ("/courses/{name}/rules", teaching.CourseRules),
    ("/courses/{name}/end-idle", teaching.EndIdle),
    ("/courses/{name}/class-hours", class_hours.ClassHoursOf),
    ("/class-hours", class_hours.ClassHours),
    ("/class-hours/{class_hour_id}", class_hours.OneClassHour),
    ("/accounts", accounts.Accounts),
    ("/accounts/{name}", accounts.OneAccount),
    ("/accounts/{name}/rules", accounts.AccountRules),
    ("/accounts/{name}/quota/{gpu_class}", accounts.AccountQuota),
    ("/groups/read", accounts.ReadGroups),
    ("/agent-tokens", agent_tokens.AgentTokens),
    ("/agent-tokens/{token_id}", agent_tokens.OneAgentToken),
    ("/agents", agents.Agents),
    ("/agents/{name}", agents.OneAgent),
    ("/agents/{name}/report", agents.Report),
    ("/agents/{name}/standing", agents.Standing),
    ("/agents/{name}/lost", agents.Lost),
    ("/usage", usage.Usage),
    ("/usage.csv", usage.UsageTable),
    ("/usage/timeline", usage.Timeline),
    ("/events", events.Events),
    ("/audit", audit.Audit),
    ("/state", why.State),
    ("/health", pool.Health),
    ("/metrics", pool.MetricsPage),
]
"""Address and handler; the first that matches is asked, so that a fixed word comes before a parameter."""


def pattern_of(path: str) -> str:
    """The regular expression of an address, with a group for each parameter."""
    escaped = path.replace(".", r"\.")
    return re.sub(r"\{(\w+)\}", lambda found: f"(?P<{found[1]}>{PARAMETERS[found[1]].pattern})", escaped)


def example_of(path: str) -> str:
    """The address with an example in the place of each parameter."""
    return re.sub(r"\{(\w+)\}", lambda found: PARAMETERS[found[1]].example, path)
