"""The pool client for threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from gpu_kernels.client.connection import Connection
from gpu_kernels.client.event_stream import Event, EventStream
from gpu_kernels.client.exchange import Reply, exchange
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.client.requests import Pause, Request, Script
from gpu_kernels.client.reservation import Reservation
from gpu_kernels.errors import PoolError
from gpu_kernels.resources.leases import Lease, Slot

T = TypeVar("T")


class PoolClient(Connection):
    """The controller's API for threads: safe to share between them, bound to no event loop, usable after a
    fork. As a ``with`` block it closes its connections at the end.

    ``url``: the controller's address, or several with commas between, of which one is active. ``timeout``:
    seconds for each call, besides those that the caller asks the controller to wait. ``verify``: as httpx
    takes it, for an https address.

    Raises:
        Unauthenticated: The token is empty, or cannot be one.
        PoolUnavailable: The address is no http or https URL.
    """

    def __init__(self, url: str, token: str, timeout: float = 10.0, *, verify: bool | str = True) -> None:
        super().__init__(url, token, timeout, verify=verify)
        self._lock = threading.Lock()
        self._http: httpx.Client | None = None
        self._pid = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        with self._lock:
            if self._http is not None and self._pid == os.getpid():
                self._http.close()
            self._http = None

    def _client(self) -> httpx.Client:
        with self._lock:
            if self._http is None or self._pid != os.getpid():
                self._http = httpx.Client(**self._client_arguments())
                self._pid = os.getpid()
            return self._http

    def send(self, request: Request[T]) -> T:
        """Send one request, and read its answer; see ``exchange``."""
        steps = exchange(request, self._controllers, self.timeout)
        reply: Reply = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                reply = None
                continue
            try:
                reply = self._client().request(**step.arguments(request))
            except httpx.TransportError as error:
                reply = error

    def run(self, script: Script[T], pause: Callable[[float], object] = time.sleep) -> T:
        """Carry a script out; what the controller refuses is raised in it. ``pause`` waits so many seconds,
        or less where there is no need to.
        """
        answer: Any = None
        failure: PoolError | None = None
        while True:
            try:
                step = script.send(answer) if failure is None else script.throw(failure)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            answer = failure = None
            if isinstance(step, Pause):
                pause(step.seconds)
                continue
            try:
                answer = self.send(step)
            except PoolError as error:
                failure = error

    def follow(self, *topics: str, after: int | None = None) -> Iterator[Event]:
        """The pool's changes as they happen, without end: ``leases`` (one's own, the default),
        ``course:NAME``, ``pool``. ``after`` is the id of the last event seen.

        A stream that is interrupted goes on where it ended; a ``reset`` says that something was missed.
        Raises what is refused.
        """
        following = EventStream(self._controllers, topics or ("leases",), after, self.timeout)
        while True:
            failure: Exception | None = None
            try:
                with self._client().stream(**following.arguments()) as response:
                    following.began(response.status_code, b"" if response.is_success else response.read())
                    for line in response.iter_lines():
                        if (event := following.line(line)) is not None:
                            yield event
            except (httpx.TransportError, PoolError) as error:
                failure = error
            time.sleep(following.interrupted(failure))

    def reserve(
        self,
        size: str,
        *,
        wait: float = 0.0,
        course: str | None = None,
        slot: Slot | None = None,
        labels: Mapping[str, str] | None = None,
        on_position: Callable[[Lease], object] | None = None,
        on_lost: Callable[[str], object] | None = None,
    ) -> Reservation:
        """A lease for as long as a ``with`` block runs: asked for, renewed beside it, and given back.

            with pool.reserve("0.1 V100", wait=60) as lease:
                ...

        Entering gives a ``Leased`` and raises the refusal. Leaving never raises: a lease that cannot be given
        back expires.

        Args:
            size: What to reserve, as ``parse_size`` reads it.
            wait: Seconds to stand in the queue where nothing is free.
            course: The course to charge; may be left out by who is in one alone.
            slot: What the lease is for; another lease for the same slot would replace it. By default a slot
                of its own.
            labels: Texts by name, kept with the lease.
            on_position: Called with the queued lease each time its position has changed.
            on_lost: Called once, in another thread, with the reason when the lease can no longer be relied
                upon.

        Raises:
            InvalidSize: The size cannot be read.
            Refused: It cannot be granted: ``CourseLimit``, ``PoolFull``, ``NoSuchClass`` and others.
            PoolUnavailable: No controller answers.
        """
        request = LeaseRequest.of_its_own("reserve", size, wait, course, slot, labels)
        return Reservation(self, request, on_position, on_lost)
