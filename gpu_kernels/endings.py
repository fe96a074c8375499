"""Why a lease is over, for people."""

from __future__ import annotations

from collections.abc import Mapping

ENDED: Mapping[str, str] = {
    "queued": "it still waits",
    "draining": "it was given back",
    "released": "it was given back",
    "expired": "it was not renewed in time",
    "revoked": "it was taken back",
    "quarantined": "it was taken back",
    "freed": "it was taken back",
}
"""What the controller's states say of a lease that is over, where it gives no reason."""


def why_ended(state: str, reason: str | None) -> str:
    """In a line, without the advice that may come after it."""
    return (reason or "").partition("\n")[0].rstrip(".") or ENDED.get(state, f"the pool says {state!r}")
