"""The Jupyter server's extension: how kernels' slices stand, and changing them, below ``/gpu-lab/api``.

What is told and what may be done is in docs/design/lab.md. An installed wheel enables it; elsewhere
``c.ServerApp.jpserver_extensions = {"gpu_kernels.server": True}`` does.
"""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Called by the Jupyter server when it starts."""
    from gpu_kernels.server.extension import GPULab

    return [{"module": "gpu_kernels.server", "app": GPULab}]
