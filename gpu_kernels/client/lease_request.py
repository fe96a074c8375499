"""What is asked of the pool for one slot."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpu_kernels.client import calls
from gpu_kernels.client.requests import Request
from gpu_kernels.resources.leases import Lease, Slot


def server_name(environ: Mapping[str, str]) -> str:
    """This Jupyter server's name within its user: the hub's name of it ('' for the nameless one), or the
    host's.
    """
    return environ.get("JUPYTERHUB_SERVER_NAME", socket.gethostname())


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """``key`` makes it the same request however often it is sent. ``wait``: seconds to stand in the queue,
    None for as long as somebody wants it. The rest is as in ``calls.ask``.
    """

    size: str
    slot: Slot
    key: str
    holder: str
    course: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    wait: float | None = 0.0
    preemptible: bool = False
    wait_for_course: bool = False

    @classmethod
    def of_its_own(
        cls,
        name: str,
        size: str,
        wait: float,
        course: str | None = None,
        slot: Slot | None = None,
        labels: Mapping[str, str] | None = None,
        *,
        preemptible: bool = False,
    ) -> LeaseRequest:
        """With a holder of its own, called ``name`` and something unique: whatever that holds was got by this
        request. Without ``slot``, for a slot of its own on this Jupyter server.
        """
        key = f"{name}-{uuid.uuid4().hex}"
        slot = slot or Slot(server_name(os.environ), key)
        return cls(size, slot, key, key, course, dict(labels or {}), wait, preemptible)

    @property
    def holds_nothing_else(self) -> bool:
        """Whether all that its holder has was got by this request."""
        return self.holder == self.key

    def anew(self, size: str | None = None) -> LeaseRequest:
        """The same under a key of its own, perhaps for another size: it is a new request."""
        return replace(self, key=uuid.uuid4().hex, size=self.size if size is None else size)

    def call(self, wait: float) -> Request[Lease]:
        """Asks for it, to wait so many seconds."""
        return calls.ask(
            self.size,
            key=self.key,
            slot=self.slot,
            holder=self.holder,
            course=self.course,
            wait=wait,
            labels=self.labels,
            preemptible=self.preemptible,
            wait_for_course=self.wait_for_course,
        )
