"""When a controller that did not answer is asked again.

By itself, and without an import of weight, as ``gpu_kernels.renewals`` is: for the pool client and for
``gpu_kernels.runner``, which has no client.
"""

from __future__ import annotations

BETWEEN_ROUNDS = (0.1, 0.4)
"""Seconds between one round over all controllers and the next; the last one fails for good."""
GATEWAY_STATUSES = (502, 503, 504)
"""Somebody before the controller answered, or one that is not active."""
RATE_LIMITED = 429
