"""A ready spawner for servers in pods; the extras `hub` and `kubernetes` install what it needs."""

from __future__ import annotations

from kubespawner import KubeSpawner

from gpu_kernels.spawner.mixin import GPULabMixin


class GPUKubeSpawner(GPULabMixin, KubeSpawner):  # type: ignore[misc]
    """Servers in pods; registered as `gpu-kubernetes`.

    The image needs `gpu-kernels` and its kernel specs. The pods ask for no `nvidia.com/gpu`, and run on nodes
    without a GPU: what they use of one lies with the GPU servers. The same class of profiles, volumes and
    network policies as KubeSpawner's; a policy must let pods reach the controller and the data ports.
    """
