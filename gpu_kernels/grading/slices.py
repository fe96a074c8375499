"""What became of the slices of this process's kernels while a submission ran."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from gpu_kernels.errors import AWAY, GPUKernelsError, PoolError
from gpu_kernels.exits import Exit, exit_status
from gpu_kernels.grading.submissions import Verdict
from gpu_kernels.provisioner import attachments
from gpu_kernels.provisioner.asking import THREAD_NAME
from gpu_kernels.provisioner.attachment import Attachment, View
from gpu_kernels.provisioner.leasing import NoSlice, client_of_this_process

KEPT = ("reserved", "active", "draining", "released")
"""Where a lease stands that was not taken back: its user has it, or gave it back."""
SETTLES_S = 10.0


class Slices:
    """Watches while it is entered. What it has seen is complete when the kernels are gone."""

    def __init__(self) -> None:
        self._leases: dict[str, str] = {}
        self._refusal: Exception | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._unlisten = attachments.listen(self._changed)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._unlisten()

    def _changed(self, attachment: Attachment, view: View) -> None:
        with self._lock:
            if view.state == "attached" and view.lease is not None:
                self._leases[view.lease.id] = view.lease.size
            if view.state == "refused" and view.error is not None:
                self._refusal = view.error

    def verdict(self, failure: Exception | None) -> Verdict | None:
        """Why the run does not count, or what it failed by if that was its slices; None if they were all
        right. Blocks for some calls.
        """
        for thread in threading.enumerate():
            if thread.name == THREAD_NAME:
                thread.join(SETTLES_S)
        with self._lock:
            leases, refusal = dict(self._leases), self._refusal
        if refusal is None and isinstance(failure, GPUKernelsError):
            refusal = failure
        for lease_id, size in leases.items():
            if (why := _taken_back(lease_id)) is not None:
                return Verdict("reclaimed", f"The slice of {size} was taken back while it ran: {why}")
        if refusal is not None:
            return Verdict("refused" if _may_pass(refusal) else "failed", str(refusal))
        return None


def _taken_back(lease_id: str) -> str | None:
    """Why a lease ended, if its user did not end it."""
    try:
        lease = client_of_this_process().get(lease_id)
    except PoolError as error:
        return f"the pool could not be asked to confirm this ({error.message.splitlines()[0]})"
    return None if lease.state in KEPT else (lease.reason or lease.state)


def _may_pass(refusal: Exception) -> bool:
    if isinstance(refusal, (NoSlice, *AWAY)):
        return True
    return isinstance(refusal, GPUKernelsError) and exit_status(refusal) == Exit.TEMPORARY
