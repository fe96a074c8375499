"""The plots of a day and of a week, of a course or of the whole pool."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from gpu_kernels.client import AsyncPoolClient
from gpu_kernels.hub_config.pages.handlers import asking
from gpu_kernels.hub_config.pages.views.plots import Picture, pictures

SPANS = {"day": (timedelta(days=1), 900), "week": (timedelta(days=7), 7200)}
"""What is shown, and in steps of how many seconds."""


async def plots(
    pool: AsyncPoolClient, course: str | None, most: Mapping[str, int | None], zone: ZoneInfo
) -> list[Picture]:
    """``most``: the limit to draw in, in thousandths by GPU class; every class of it has its pictures."""
    now = datetime.now(UTC)
    answers = await asking.together(
        *(
            pool.timeline(since=_rounded(now - long, step), until=now.isoformat(), course=course, step=step)
            for long, step in SPANS.values()
        )
    )
    return [
        picture
        for gpu_class in sorted(most)
        for span, answer in zip(SPANS, answers, strict=True)
        for picture in pictures(answer, gpu_class, span, most[gpu_class], zone)
    ]


def _rounded(at: datetime, step: int) -> str:
    """Down to a step, so that the same steps are shown until the next one."""
    return datetime.fromtimestamp(at.timestamp() // step * step, UTC).isoformat()
