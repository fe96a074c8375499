"""EventStream the pool's changes: reading server-sent events and going on after an interruption, sans-io."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
from msgspec.json import decode

from gpu_kernels.client.exchange import Controllers
from gpu_kernels.errors import NotActive, PoolError, PoolUnavailable, RateLimited, from_json
from gpu_kernels.resources.events import PoolEvent

SILENCE = 60.0
"""Seconds without even a sign of life after which a stream is taken for dead; the controller sends one
every 15.
"""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 30.0


@dataclass(frozen=True, slots=True)
class Event:
    """``name``: ``ready`` (the stream has begun), ``change``, or ``reset`` (some changes are not told: look
    anew). ``change`` is there where something has changed.
    """

    name: str
    id: int
    change: PoolEvent | None


class EventStream:
    """One follower: which controller to ask, from which event on, and what the lines mean."""

    def __init__(
        self, controllers: Controllers, topics: tuple[str, ...], after: int | None, timeout: float
    ) -> None:
        self._controllers = controllers
        self._topics = ",".join(topics)
        self._last = after
        self._timeout = timeout
        self._fields: dict[str, str] = {}
        self._pause = SHORTEST_PAUSE
        self._turn: Iterator[str] = iter(())
        self._url = controllers.current

    def arguments(self) -> dict[str, Any]:
        """For ``httpx.Client.stream``: the next attempt."""
        url = next(self._turn, None)
        if url is None:
            self._turn = self._controllers.in_turn()
            url = next(self._turn)
        self._url, self._fields = url, {}
        return {
            "method": "GET",
            "url": f"{url}/api/v1/events",
            "params": {"topics": self._topics},
            "headers": {} if self._last is None else {"Last-Event-ID": str(self._last)},
            "timeout": httpx.Timeout(self._timeout, read=SILENCE),
        }

    def began(self, status: int, body: bytes) -> None:
        """The answer's head has come; ``body`` of one that is no stream. Raises what was refused."""
        if status == 200:
            self._controllers.current = self._url
            self._pause = SHORTEST_PAUSE
            return
        try:
            content = json.loads(body)
        except ValueError:
            content = None
        error = from_json(status, content)
        if isinstance(error, NotActive):
            self._controllers.name_active(error.details.get("address"))
        raise error

    def line(self, text: str) -> Event | None:
        """One line of the stream, and the event that it completes."""
        if text:
            name, _, value = text.partition(":")
            if name:
                self._fields[name] = value.removeprefix(" ")
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        name = fields.get("event", "")
        change = decode(fields["data"], type=PoolEvent) if name == "change" else None
        event = Event(name, int(fields["id"]), change)
        self._last = event.id
        return event

    def interrupted(self, error: Exception | None) -> float:
        """The stream has ended, by itself or by ``error``: seconds until the next attempt. Raises what will
        not be otherwise then.
        """
        if isinstance(error, PoolError) and not isinstance(error, (PoolUnavailable, RateLimited)):
            raise error
        pause = self._pause * random.uniform(0.5, 1.0)  # noqa: S311 - so that followers do not all come at once
        self._pause = min(LONGEST_PAUSE, 2 * self._pause)
        return pause
