"""JupyterHub spawners that give a server its course, its controller and its token scopes.

`GPULabMixin` goes before any spawner class. Ready are those of the entry points `gpu-simple`, `gpu-local`,
`gpu-systemd`, `gpu-docker` and `gpu-kubernetes`; what the last three need is imported when they are named.
This folder knows the hub and the pool client; it knows nothing of GPUs, kernels or the controller's inside.
"""

if __name__ != "gpu_kernels.spawner":
    raise ImportError("This package is imported as gpu_kernels.spawner.")

from gpu_kernels.spawner.local import GPULocalProcessSpawner, GPUSimpleLocalProcessSpawner
from gpu_kernels.spawner.mixin import GPULabMixin, gpu_token_scopes

__all__ = ["GPULabMixin", "GPULocalProcessSpawner", "GPUSimpleLocalProcessSpawner", "gpu_token_scopes"]
