"""The pool client: the controller's API as typed calls, for threads (``PoolClient``) and for asyncio.

    with PoolClient.from_environment() as pool, pool.reserve("0.1 V100", wait=60) as lease:
        ...

A call that lost its connection is tried again within its time where repeating it is harmless, which is so
for all of them but those that say otherwise. What the controller refuses is raised as the ``PoolError``
subclass of its code; a controller that cannot be reached is ``PoolUnavailable``.
"""

from gpu_kernels.client.aio import AsyncPoolClient
from gpu_kernels.client.connection import TOKEN_VARIABLES
from gpu_kernels.client.event_stream import Event
from gpu_kernels.client.exchange import CONTROLLER_VARIABLE
from gpu_kernels.client.leased import Leased
from gpu_kernels.client.threads import PoolClient
from gpu_kernels.resources.agents import AgentReport, AssignedLease, Assignment, Registration
from gpu_kernels.resources.events import PoolEvent
from gpu_kernels.resources.leases import Lease, LeaseAgent, LeaseSlice, Lost, Renewal, Renewed, Slot

__all__ = [
    "CONTROLLER_VARIABLE",
    "TOKEN_VARIABLES",
    "AgentReport",
    "AssignedLease",
    "Assignment",
    "AsyncPoolClient",
    "Event",
    "Lease",
    "LeaseAgent",
    "LeaseSlice",
    "Leased",
    "Lost",
    "PoolClient",
    "PoolEvent",
    "Registration",
    "Renewal",
    "Renewed",
    "Slot",
]
