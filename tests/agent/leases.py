"""Leases as the pool client gives them, for tests."""

from __future__ import annotations

from gpu_kernels.client import Lease, LeaseAgent, LeaseSlice, Slot


def lease(
    lease_id: str = "lease-a",
    *,
    epoch: int = 1,
    address: str | None = "tcp://127.0.0.1:7000",
    secret: str | None = "ab" * 32,
    device: str = "software",
) -> Lease:
    return Lease(
        id=lease_id,
        state="reserved",
        epoch=epoch,
        user="ada",
        course="ml101",
        size="0.02 V100",
        gpu_class="V100",
        device=device,
        slot=Slot("", "notebook.ipynb"),
        holder="kernel-1",
        slices=(LeaseSlice("GPU-1", 0, 655, 20),),
        agent=LeaseAgent("gpu-server-1", address),
        secret=secret,
        position=None,
        expires_in=60.0,
        ttl=60.0,
        reason=None,
        created_at="2026-01-01T00:00:00Z",
        labels={},
    )
