"""Ends the leases of a stopped server."""

from __future__ import annotations

import httpx


async def release_server(controller: str, token: str, server: str) -> int:
    """Ends what the token's owner holds for this server; returns how many leases that were.

    `server` is the hub's name of it, empty for the nameless one. Raises httpx.HTTPError when the controller
    cannot be reached or refuses.
    """
    async with httpx.AsyncClient(timeout=30) as client:
        response = await client.post(
            f"{controller}/api/v1/leases/release",
            json={"server": server or "default"},
            headers={"Authorization": f"token {token}"},
        )
    response.raise_for_status()
    return len(response.json().get("leases", []))
