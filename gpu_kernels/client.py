"""The pool client: the controller's API as typed calls, for threads (``PoolClient``) and for asyncio.

Every call may be repeated safely (a reserve by its key, the rest by their nature), so a call that lost its
connection is tried again within its time. What the controller refuses is raised as the ``PoolError``
subclass of its code; a controller that cannot be reached is ``PoolUnavailable``.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import httpx

from gpu_kernels.errors import PoolError, PoolUnavailable, Unauthenticated, from_json
from gpu_kernels.pool_api import (
    AssignedLease,
    Assignment,
    Call,
    Calls,
    Lease,
    LeaseSlice,
    Lost,
    Parsed,
    Renewal,
    Slot,
)

__all__ = [
    "AssignedLease",
    "Assignment",
    "AsyncPoolClient",
    "Lease",
    "LeaseSlice",
    "Lost",
    "PoolClient",
    "Renewal",
    "Slot",
]

T = TypeVar("T")

CONTROLLER_VARIABLE = "GPU_KERNELS_CONTROLLER"
TOKEN_VARIABLES = ("GPU_KERNELS_TOKEN", "JUPYTERHUB_API_TOKEN")
ATTEMPTS = 3
BETWEEN_ATTEMPTS = (0.1, 0.4)


class _Connection:
    """Where the controller is and who asks; the token is in no repr and no error text."""

    def __init__(self, url: str, token: str, timeout: float = 10.0, *, verify: bool | str = True) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise PoolUnavailable(
                f"The GPU pool's address {url!r} is not an http or https URL.\n"
                f"Whoever runs this installation sets it in {CONTROLLER_VARIABLE}."
            )
        if not token or not token.isascii() or not token.isprintable():
            raise Unauthenticated(
                f"There is no usable token for the GPU pool (read from {' or '.join(TOKEN_VARIABLES)}).\n"
                "Start the server again from the hub, or ask whoever runs it."
            )
        self.url = url.rstrip("/")
        self.timeout = timeout
        self._headers = {"Authorization": f"token {token}"}
        self._verify = verify if parts.scheme == "https" else False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, *, timeout: float = 10.0) -> Self:
        """The client that the environment describes: ``GPU_KERNELS_CONTROLLER`` and a token variable.

        Raises ``PoolUnavailable`` or ``Unauthenticated`` where it describes none.
        """
        values = os.environ if environment is None else environment
        url = values.get(CONTROLLER_VARIABLE, "")
        if not url:
            raise PoolUnavailable(
                f"No GPU pool is configured here: {CONTROLLER_VARIABLE} is not set.\n"
                "Choose 'Python 3' to work without a GPU, or ask whoever runs this installation."
            )
        token = next((values[name] for name in TOKEN_VARIABLES if values.get(name)), "")
        return cls(url, token, timeout)

    def _client_arguments(self) -> dict[str, Any]:
        return {
            "base_url": f"{self.url}/api/v1",
            "headers": self._headers,
            "verify": self._verify,
            "trust_env": False,
            "follow_redirects": False,
        }

    def _request_arguments(self, call: Call, time_left: float) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "method": call.method,
            "url": call.path,
            "params": dict(call.params),
            "timeout": httpx.Timeout(time_left, connect=min(time_left, self.timeout)),
        }
        if call.body is not None:
            arguments["json"] = call.body
        return arguments

    def _answer(self, response: httpx.Response, parse: Callable[[Any], T]) -> T:
        try:
            body = response.json()
        except ValueError:
            raise from_json(response.status_code, None) from None
        if not response.is_success:
            raise from_json(response.status_code, body)
        try:
            return parse(body)
        except (KeyError, TypeError, AttributeError) as error:
            raise PoolUnavailable(
                f"What answered at {self.url} is not a pool controller of this version.",
                log_message=f"answer to {response.request.url.path} lacks what it should hold: {error!r}",
            ) from error

    def _unreachable(self, error: Exception) -> PoolUnavailable:
        why = "it did not answer in time" if isinstance(error, httpx.TimeoutException) else "no connection"
        return PoolUnavailable(
            f"The GPU pool does not answer ({why}).\n"
            "Your notebook and its files are not affected.\n"
            "Try again in a minute, or choose 'Python 3' to work without a GPU.",
            log_message=f"pool controller at {self.url}: {type(error).__name__}: {error}",
            retry_after=10.0,
        )


_GATEWAY_STATUSES = (502, 503, 504)


def _passing(response: httpx.Response) -> bool:
    """Whether a proxy says that the controller is away for now (the controller itself answers in JSON)."""
    is_json = response.headers.get("content-type", "").startswith("application/json")
    return response.status_code in _GATEWAY_STATUSES and not is_json


class _Attempts:
    """How often and how long one call is tried."""

    def __init__(self, call: Call, timeout: float) -> None:
        self._end = time.monotonic() + timeout + call.wait
        self._left = list(BETWEEN_ATTEMPTS[: ATTEMPTS - 1])

    def time_left(self) -> float:
        return max(0.05, self._end - time.monotonic())

    def pause(self) -> float | None:
        """Seconds to pause before another attempt, None when this one was the last."""
        if not self._left or time.monotonic() + self._left[0] >= self._end:
            return None
        return self._left.pop(0)


class PoolClient(_Connection):
    """The controller's API for threads: safe to share between them, bound to no event loop, usable after a
    fork.

    ``timeout`` bounds each call in seconds, besides the time that the caller asks the controller to wait.
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

    def _do(self, parsed: Parsed[T]) -> T:
        call, parse = parsed
        attempts = _Attempts(call, self.timeout)
        while True:
            try:
                response = self._client().request(**self._request_arguments(call, attempts.time_left()))
                if not _passing(response):
                    return self._answer(response, parse)
                failure: PoolError = from_json(response.status_code, None)
            except httpx.TransportError as error:
                failure = self._unreachable(error)
            pause = attempts.pause()
            if pause is None:
                raise failure
            time.sleep(pause)

    def reserve(
        self,
        size: str,
        *,
        key: str,
        slot: Slot,
        holder: str,
        course: str | None = None,
        wait: float = 0.0,
        labels: Mapping[str, str] | None = None,
    ) -> Lease:
        """Ask for a lease: ``reserved``, or ``queued`` when ``wait`` > 0 seconds and nothing is free.

        Raises what was refused, e.g. ``CourseLimit``, ``PoolFull``, ``NoSuchClass``, ``InvalidSize``.
        """
        return self._do(Calls.reserve(size, key, slot, holder, course, wait, labels))

    def wait_for(self, lease: Lease, seconds: float) -> Lease:
        """Wait while ``lease`` is queued, at most so long; the lease as it then is."""
        end = time.monotonic() + seconds
        while lease.queued and (left := end - time.monotonic()) > 0:
            lease = self.get(lease.id, wait=left)
        return lease

    def get(self, lease_id: str, wait: float = 0.0) -> Lease:
        """The lease; with ``wait``, when it is no longer queued or after that time (30 seconds at most)."""
        return self._do(Calls.get(lease_id, wait))

    def list(self, course: str | None = None, *, everyone: bool = False) -> list[Lease]:
        """Own leases; those of a course for its instructor; everyone's for an admin."""
        return self._do(Calls.leases(course, everyone))

    def renew(self, leases: Iterable[tuple[str, int]]) -> Renewal:
        """Renew all of these (id, epoch) in one call."""
        return self._do(Calls.renew(leases))

    def release(self, lease_id: str, holder: str) -> Lease:
        """Give a lease back; nothing changes when another holder has it now."""
        return self._do(Calls.release(lease_id, holder))

    def release_server(self, server: str, user: str | None = None) -> Sequence[Lease]:
        """End all leases of a Jupyter server; for another ``user`` only with the pool admin's scope."""
        return self._do(Calls.release_server(server, user))

    def revoke(self, lease_id: str, reason: str) -> Lease:
        """Take a lease back (pool admin)."""
        return self._do(Calls.revoke(lease_id, reason))

    def pool(self) -> dict[str, Any]:
        return self._do(Calls.pool())

    def courses(self) -> Sequence[dict[str, Any]]:
        return self._do(Calls.courses())

    def course(self, name: str) -> dict[str, Any]:
        return self._do(Calls.course(name))

    def set_limit(self, course: str, limit: Mapping[str, int]) -> dict[str, Any]:
        """Set what a course may hold at once: GPU class to thousandths."""
        return self._do(Calls.set_limit(course, limit))

    def register_agent(
        self,
        name: str,
        *,
        boot_id: str,
        address: str,
        version: str,
        gpus: Sequence[Mapping[str, Any]],
        fences_after: float = 0.0,
    ) -> dict[str, Any]:
        """Register an agent; leases that ran under another boot of it are revoked. ``fences_after``: seconds
        without an acknowledged report after which it has killed its workers by itself; 0: no promise.
        """
        return self._do(Calls.register_agent(name, boot_id, address, version, gpus, fences_after))

    def report_agent(
        self,
        name: str,
        *,
        boot_id: str,
        target_seq: int,
        leases: Sequence[Mapping[str, Any]],
        wait: float = 0.0,
        incarnation: str = "",
        full: bool = True,
        epoch: int = 0,
        outside: Sequence[Mapping[str, Any]] = (),
    ) -> Assignment:
        """Report the inventory; the answer is everything to serve, at once or when it changes within
        ``wait``. See docs/design/agent.md for the fields.
        """
        return self._do(
            Calls.report_agent(name, boot_id, target_seq, leases, wait, incarnation, full, epoch, outside)
        )


class AsyncPoolClient(_Connection):
    """The same calls for asyncio. One instance may be used from several event loops, one after another."""

    def __init__(self, url: str, token: str, timeout: float = 10.0, *, verify: bool | str = True) -> None:
        super().__init__(url, token, timeout, verify=verify)
        self._by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient]
        self._by_loop = weakref.WeakKeyDictionary()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections that the running loop has."""
        http = self._by_loop.pop(asyncio.get_running_loop(), None)
        if http is not None:
            await http.aclose()

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        http = self._by_loop.get(loop)
        if http is None:
            http = self._by_loop[loop] = httpx.AsyncClient(**self._client_arguments())
        return http

    async def _do(self, parsed: Parsed[T]) -> T:
        call, parse = parsed
        attempts = _Attempts(call, self.timeout)
        while True:
            try:
                arguments = self._request_arguments(call, attempts.time_left())
                response = await self._client().request(**arguments)
                if not _passing(response):
                    return self._answer(response, parse)
                failure: PoolError = from_json(response.status_code, None)
            except httpx.TransportError as error:
                failure = self._unreachable(error)
            pause = attempts.pause()
            if pause is None:
                raise failure
            await asyncio.sleep(pause)

    async def reserve(
        self,
        size: str,
        *,
        key: str,
        slot: Slot,
        holder: str,
        course: str | None = None,
        wait: float = 0.0,
        labels: Mapping[str, str] | None = None,
    ) -> Lease:
        """See ``PoolClient.reserve``."""
        return await self._do(Calls.reserve(size, key, slot, holder, course, wait, labels))

    async def wait_for(self, lease: Lease, seconds: float) -> Lease:
        """Wait while ``lease`` is queued, at most so long; the lease as it then is."""
        end = time.monotonic() + seconds
        while lease.queued and (left := end - time.monotonic()) > 0:
            lease = await self.get(lease.id, wait=left)
        return lease

    async def get(self, lease_id: str, wait: float = 0.0) -> Lease:
        return await self._do(Calls.get(lease_id, wait))

    async def list(self, course: str | None = None, *, everyone: bool = False) -> list[Lease]:
        return await self._do(Calls.leases(course, everyone))

    async def renew(self, leases: Iterable[tuple[str, int]]) -> Renewal:
        return await self._do(Calls.renew(leases))

    async def release(self, lease_id: str, holder: str) -> Lease:
        return await self._do(Calls.release(lease_id, holder))

    async def release_server(self, server: str, user: str | None = None) -> Sequence[Lease]:
        return await self._do(Calls.release_server(server, user))

    async def revoke(self, lease_id: str, reason: str) -> Lease:
        return await self._do(Calls.revoke(lease_id, reason))

    async def pool(self) -> dict[str, Any]:
        return await self._do(Calls.pool())

    async def courses(self) -> Sequence[dict[str, Any]]:
        return await self._do(Calls.courses())

    async def course(self, name: str) -> dict[str, Any]:
        return await self._do(Calls.course(name))

    async def set_limit(self, course: str, limit: Mapping[str, int]) -> dict[str, Any]:
        return await self._do(Calls.set_limit(course, limit))

    async def register_agent(
        self,
        name: str,
        *,
        boot_id: str,
        address: str,
        version: str,
        gpus: Sequence[Mapping[str, Any]],
        fences_after: float = 0.0,
    ) -> dict[str, Any]:
        """See ``PoolClient.register_agent``."""
        return await self._do(Calls.register_agent(name, boot_id, address, version, gpus, fences_after))

    async def report_agent(
        self,
        name: str,
        *,
        boot_id: str,
        target_seq: int,
        leases: Sequence[Mapping[str, Any]],
        wait: float = 0.0,
        incarnation: str = "",
        full: bool = True,
        epoch: int = 0,
        outside: Sequence[Mapping[str, Any]] = (),
    ) -> Assignment:
        """See ``PoolClient.report_agent``."""
        return await self._do(
            Calls.report_agent(name, boot_id, target_seq, leases, wait, incarnation, full, epoch, outside)
        )
