"""JupyterHub spawners that give a server its course, its controller and its token scopes.

`GPULabMixin` goes before any spawner class; `GPUSimpleLocalProcessSpawner` is ready for one machine.
This folder knows the hub and the pool client; it knows nothing of GPUs, kernels or the controller's inside.
"""

from spawner.local import GPUSimpleLocalProcessSpawner
from spawner.mixin import GPULabMixin, gpu_token_scopes

__all__ = ["GPULabMixin", "GPUSimpleLocalProcessSpawner", "gpu_token_scopes"]
