"""What the hub's log may take: so many lines of each place in the code, however many requests cause them."""

from typing import Any

LOGGING: dict[str, Any] = {
    "filters": {"rate": {"()": "gpu_kernels.limits.logs.RateLimit"}},
    "handlers": {"console": {"filters": ["rate"]}},
}
"""For ``JupyterHub.logging_config``, which adds it to the hub's own."""
