"""How this pool is run, as far as the configuration says."""

from __future__ import annotations

from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

from gpu_kernels.pool.policy.scene import UTC, Settings
from gpu_kernels.vocabulary.roles import PLAIN, Patterns


@dataclass(frozen=True, slots=True)
class SitePolicy:
    """``patterns``: what the names of groups mean. ``zone``: the institution's wall clock, by which weeks
    begin and texts tell the time. ``settings``: what decisions are made by.
    """

    patterns: Patterns = PLAIN
    zone: ZoneInfo = UTC
    settings: Settings = field(default_factory=Settings)
