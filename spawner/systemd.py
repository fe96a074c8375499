"""A ready spawner for one machine with systemd; the extras `hub` and `systemd` install what it needs."""

from __future__ import annotations

from systemdspawner import SystemdSpawner

from gpu_kernels.spawner.mixin import GPULabMixin


class GPUSystemdSpawner(GPULabMixin, SystemdSpawner):  # type: ignore[misc]
    """Servers as systemd units, with limits of memory and processor; registered as `gpu-systemd`.

    The GPU servers must be reachable from the units: leave `private_network` off, or their data ports out
    of it.
    """
