"""A ready spawner for one machine."""

from __future__ import annotations

from jupyterhub.spawner import SimpleLocalProcessSpawner

from spawner.mixin import GPULabMixin


class GPUSimpleLocalProcessSpawner(GPULabMixin, SimpleLocalProcessSpawner):  # type: ignore[misc]
    """Servers as processes of the hub's own account, for demos and tests; registered as `gpu-simple`.

    Like its base class it isolates nobody: every server can read every other's files and environment,
    tokens and secrets of leases included. For students that are strangers to each other, mix
    `GPULabMixin` into a spawner that isolates.
    """
