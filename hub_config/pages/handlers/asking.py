"""The controller's calls as the pages need them, bounded where lists can be long."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from gpu_kernels.client import AsyncPoolClient
from gpu_kernels.client.requests import Request, query_of
from gpu_kernels.errors import Forbidden, MethodNotAllowed, NotFound
from gpu_kernels.resources.about import Health
from gpu_kernels.resources.base import reader
from gpu_kernels.resources.leases import Lease, LeasePage

T = TypeVar("T")
Answer = dict[str, Any]
A_PAGE = 1000
MOST_LEASES = 5000
"""Leases that a page looks at; what is beyond is said to be left out."""


async def together(*calls: Coroutine[Any, Any, Any]) -> list[Any]:
    """All of them at once. The first that fails is raised, and the others are not waited for."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


async def if_allowed(call: Coroutine[Any, Any, T]) -> T | None:
    """None where the visitor may not ask, or the controller does not know the call."""
    try:
        return await call
    except (Forbidden, NotFound, MethodNotAllowed):
        return None


class Leases(list[Lease]):
    """``cut``: there are more than these, and the page says so."""

    cut = False


async def leases(pool: AsyncPoolClient, **whose: object) -> Leases:
    """Leases that live, newest first: one's own, or those of ``course=``, ``user=``, or ``all=True``."""
    found = Leases()
    after: str | None = None
    while True:
        page = await lease_page(pool, limit=A_PAGE, after=after, **whose)
        found += page.leases
        after = page.next
        found.cut = after is not None
        if after is None or len(found) >= MOST_LEASES:
            return found


async def lease_page(pool: AsyncPoolClient, **query: object) -> LeasePage:
    return await pool.send(Request("GET", "/leases", reader(LeasePage), params=query_of(**query)))


async def health(pool: AsyncPoolClient) -> Health:
    return await pool.send(Request("GET", "/health", reader(Health)))
