"""The hub's groups with their properties, read again and again and carried into the ledger.

The hub pushes nothing, so it is asked every ``interval`` seconds, and on demand. While it does not answer,
what was read last stays in force, and ``/health`` says since when.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

from gpu_kernels.client.preload import preload_httpx
from gpu_kernels.errors import AuthenticationUnavailable, PoolError
from gpu_kernels.pool.ledger.commands import group_properties
from gpu_kernels.pool.ledger.commands.group_properties import Properties
from gpu_kernels.pool.service.desk import Desk

log = logging.getLogger("gpu_kernels.pool")

PAGE = 200
MOST_GROUPS = 20_000
MOST_BYTES = 16 * 1024 * 1024
"""Of one page: groups tell their members too."""
SECONDS = 20.0
RETRY = 5.0
"""Seconds after which a hub is asked again that did not answer: it may just be starting."""
PAGINATED = "application/jupyterhub-pagination+json"


class GroupSource(Protocol):
    """Knows the groups. ``read`` raises ``HubUnreadable`` where they cannot be had, whole, now."""

    async def read(self) -> Mapping[str, Properties]: ...


class HubUnreadable(Exception):
    """The hub does not tell its groups. ``str()`` is for the operator, and names no secret."""


class HubGroups:
    """Asks the hub's REST API. The service's own credential and the hub's address come from the hub's
    environment; it needs the scopes ``list:groups`` and ``read:groups``.
    """

    def __init__(self, url: str, token: str, verify: ssl.SSLContext | bool = True) -> None:
        self._url = f"{url.rstrip('/')}/groups"
        self._headers = {"Authorization": f"token {token}", "Accept": PAGINATED}
        # Made once: it reads the certificates that the machine trusts, and each look would wait for that.
        secure = url.startswith("https:")
        self._verify = (httpx.create_ssl_context() if verify is True else verify) if secure else False

    @classmethod
    def from_environment(cls) -> HubGroups:
        """As the hub tells its service. Raises ``KeyError`` outside of a hub."""
        preload_httpx()
        return cls(os.environ["JUPYTERHUB_API_URL"], os.environ["JUPYTERHUB_API_TOKEN"], _internal_tls())

    async def read(self) -> Mapping[str, Properties]:
        found: dict[str, Properties] = {}
        offset: int | None = 0
        async with httpx.AsyncClient(headers=self._headers, timeout=SECONDS, verify=self._verify) as client:
            while offset is not None:
                page = await self._page(client, offset)
                found.update(_properties(page))
                if len(found) > MOST_GROUPS:
                    raise HubUnreadable(f"it has more than {MOST_GROUPS} groups")
                offset = _next(page, offset)
        return found

    async def _page(self, client: httpx.AsyncClient, offset: int) -> Mapping[str, Any]:
        try:
            async with client.stream("GET", self._url, params={"offset": offset, "limit": PAGE}) as response:
                if response.status_code == 403:
                    raise HubUnreadable("the service lacks the scopes list:groups and read:groups")
                if response.status_code != 200:
                    raise HubUnreadable(f"it answers {response.status_code}")
                body = bytearray()
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > MOST_BYTES:
                        raise HubUnreadable(f"a page of {PAGE} groups is longer than {MOST_BYTES} bytes")
                page = httpx.Response(200, content=bytes(body)).json()
        except (httpx.HTTPError, ValueError) as error:
            raise HubUnreadable(f"{type(error).__name__}: {error}") from None
        if not isinstance(page, dict):
            raise HubUnreadable("it answers otherwise than a hub does")
        return page


def _properties(page: Mapping[str, Any]) -> dict[str, Properties]:
    found: dict[str, Properties] = {}
    items = page.get("items")
    for group in items if isinstance(items, list) else [None]:
        if not isinstance(group, dict) or not isinstance(group.get("name"), str):
            raise HubUnreadable("it answers otherwise than a hub does")
        properties = group.get("properties")
        if not isinstance(properties, dict):
            raise HubUnreadable("it tells no properties: the service lacks the scope read:groups")
        found[group["name"]] = properties
    return found


def _next(page: Mapping[str, Any], offset: int) -> int | None:
    pagination = page.get("_pagination")
    following = pagination.get("next") if isinstance(pagination, dict) else None
    if following is None:
        return None
    number = following.get("offset") if isinstance(following, dict) else None
    if not isinstance(number, int) or number <= offset:
        raise HubUnreadable("its pages do not go on")
    return number


def _internal_tls() -> ssl.SSLContext | bool:
    """A hub with internal TLS tells its services where the certificates are."""
    key, certificate, authority = (
        os.environ.get(f"JUPYTERHUB_SSL_{name}") for name in ("KEYFILE", "CERTFILE", "CLIENT_CA")
    )
    if not (key and certificate):
        return True
    context = ssl.create_default_context(cafile=authority)
    context.load_cert_chain(certificate, key)
    return context


@dataclass(frozen=True, slots=True)
class GroupsState:
    """``age``: seconds since the groups were last carried out, None before the first time. ``fault``: why
    they could not be read since. ``faulty``: properties that cannot be carried out.
    """

    age: float | None
    fault: str | None
    faulty: int


class GroupReader:
    """Reads the groups and carries them into the ledger."""

    def __init__(
        self,
        source: GroupSource,
        desk: Desk,
        interval: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._desk = desk
        self._interval = interval
        self._monotonic = monotonic
        self._read_at: float | None = None
        self._fault: str | None = None
        self._faulty = 0
        self._known: tuple[str, Mapping[str, Properties]] | None = None
        """What was carried out last, under which term. Within a term nobody else changes what properties
        set, so that it need not be carried out again.
        """
        self._reading = asyncio.Lock()

    @property
    def state(self) -> GroupsState:
        age = None if self._read_at is None else self._monotonic() - self._read_at
        return GroupsState(age, self._fault, self._faulty)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.once()
            except PoolError as error:
                log.debug("the groups were not carried out: %s", error.log_message)
            except Exception:
                log.exception("the groups could not be carried out")
            await asyncio.sleep(self._interval if self._fault is None else min(self._interval, RETRY))

    async def once(self) -> int:
        """Read and carry out; how many properties cannot be. Raises ``AuthenticationUnavailable`` where the
        hub does not tell, and what the ledger raises.
        """
        async with self._reading:
            try:
                told = await self._source.read()
            except HubUnreadable as error:
                if self._fault is None:
                    log.error("the hub's groups cannot be read, what was read last stays: %s", error)
                self._fault = str(error)
                raise AuthenticationUnavailable(
                    "The hub does not tell its groups now; what it told last stays in force.\n"
                    "Try again in a minute.",
                    log_message=f"groups: {error}",
                    retry_after=self._interval,
                ) from None
            known = self._desk.ledger.incarnation, told
            if known == self._known and self._faulty == 0:
                self._read_at, self._fault = self._monotonic(), None
                return 0
            faulty = await self._desk.write(lambda tx: group_properties.apply(tx, told))
            self._known = known
            if self._fault is not None:
                log.info("the hub's groups can be read again")
            if faulty != self._faulty:
                log.warning("%d properties of groups cannot be carried out", faulty)
            self._read_at, self._fault, self._faulty = self._monotonic(), None, faulty
            return faulty
