"""An attachment as the status bar shows it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from gpu_kernels import offer
from gpu_kernels.client import Lease
from gpu_kernels.errors import PoolError
from gpu_kernels.magics.query import AgentSilent, query
from gpu_kernels.provisioner.attachment import Attachment, View
from gpu_kernels.provisioner.leasing import client_of_this_process
from gpu_kernels.resources.lab import EndsWhy, KernelSlice

AGENT_TIMEOUT_S = 2.0
LEASE_AGAIN_S = 30.0


@dataclass(frozen=True)
class Use:
    """What a lease's slices were used for when their GPU server was last asked, and when the lease ends."""

    lease: str
    used_mib: int | None
    total_mib: int
    utilisation: float | None
    ends_in: float | None
    ends_why: EndsWhy | None
    told_at: float
    lease_told_at: float


def snapshot(attachment: Attachment) -> KernelSlice:
    """How it stands, with what is known of its use by now. Never blocks."""
    changes = attachment.changes  # before the view: what is told is at least as new
    view = attachment.view()
    lease = view.lease if view.state == "attached" else None
    use = _of(attachment, lease)
    place = view.place
    return KernelSlice(
        id=attachment.kernel_id,
        changes=changes,
        state=view.state,
        size=view.size,
        device=lease.device if lease is not None else None,
        course=view.course,
        lease=view.lease.id if view.lease is not None else None,
        used_mib=use.used_mib if use is not None else None,
        total_mib=_total(view),
        utilisation=use.utilisation if use is not None else None,
        ends_in=None if use is None else _left(use),
        ends_why=use.ends_why if use is not None else None,
        position=place.position if place is not None else None,
        starts_in=place.starts_in if place is not None else None,
        wanted=place,
        declined=view.declined,
        lost=view.lost,
        text=view.text if view.state == "waiting" else view.declined or view.text,
        sizes=offer.OFFERS.now().to_choose(),
    )


def look(attachment: Attachment) -> KernelSlice:
    """The same, after asking the GPU server for the use and, now and then, the controller for the lease's
    end. Blocks for two calls; never raises.
    """
    view = attachment.view()
    if view.state == "attached" and view.lease is not None:
        attachment.use = _looked(view.lease, _of(attachment, view.lease))
    return snapshot(attachment)


def _looked(lease: Lease, before: Use | None) -> Use:
    now = time.monotonic()
    known, told_at = lease, now
    if before is not None and now - before.lease_told_at < LEASE_AGAIN_S:
        told_at, ends_in, ends_why = before.lease_told_at, _left(before), before.ends_why
    else:
        try:
            known = client_of_this_process().get(lease.id)
        except PoolError:
            known = lease
        ends_in, ends_why = _end(known)
    used, utilisation = _ask_agent(lease)
    total = lease.mib
    return Use(lease.id, used, total, utilisation, ends_in, ends_why, now, told_at)


def _ask_agent(lease: Lease) -> tuple[int | None, float | None]:
    if lease.address is None or lease.secret is None:
        return None, None
    try:
        slices = query(
            lease.address, lease.id, lease.epoch, bytes.fromhex(lease.secret), timeout=AGENT_TIMEOUT_S
        )
    except (AgentSilent, ValueError):
        return None, None
    busy = [part.utilisation for part in slices if part.utilisation is not None]
    return sum(part.used_mib for part in slices), sum(busy) / len(busy) if busy else None


def _end(lease: Lease) -> tuple[float | None, EndsWhy | None]:
    """When the lease ends however it is renewed, and why: ``class`` or ``longest life``."""
    known: list[tuple[float | None, EndsWhy]] = [(lease.preempt_in, "class"), (lease.ends_in, "longest life")]
    ends = [(seconds, why) for seconds, why in known if seconds is not None]
    return min(ends) if ends else (None, None)


def _of(attachment: Attachment, lease: Lease | None) -> Use | None:
    """The use of this lease; that of an earlier one is no longer true."""
    use = attachment.use
    return use if use is not None and lease is not None and use.lease == lease.id else None


def _left(use: Use) -> float | None:
    return None if use.ends_in is None else max(0.0, use.ends_in - (time.monotonic() - use.told_at))


def _total(view: View) -> int | None:
    return view.lease.mib if view.state == "attached" and view.lease is not None else None
