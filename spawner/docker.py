"""A ready spawner for servers in containers; the extras `hub` and `docker` install what it needs."""

from __future__ import annotations

from dockerspawner import DockerSpawner

from gpu_kernels.spawner.mixin import GPULabMixin


class GPUDockerSpawner(GPULabMixin, DockerSpawner):  # type: ignore[misc]
    """Servers in containers; registered as `gpu-docker`.

    The image needs `gpu-kernels` and its kernel specs, no GPU, and no NVIDIA runtime. `gpu_slice_controller`
    and the GPU servers' data ports must be reachable from the containers' network: an address of the host,
    not of its loopback.
    """
