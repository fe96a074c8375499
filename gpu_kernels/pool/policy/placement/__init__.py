"""Where a lease goes: the index of the pool's GPUs, and the policies that choose among them."""

from __future__ import annotations

from gpu_kernels.pool.policy.placement.catalogue import Catalogue, Shape
from gpu_kernels.pool.policy.placement.index import POLICIES, Index, Room

__all__ = ["POLICIES", "Catalogue", "Index", "Room", "Shape"]
