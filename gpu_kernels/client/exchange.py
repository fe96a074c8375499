"""One request's way to an answer: which controller is tried, how often and how long, and what is told when
none answers. Sans-io: a generator yields what to send and is sent what came of it, so that threads and
asyncio share every decision.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec
from msgspec.json import encode

from gpu_kernels.client.requests import Pause, Request
from gpu_kernels.errors import NotActive, PoolError, PoolUnavailable, RateLimited, from_json
from gpu_kernels.resources.base import Resource
from gpu_kernels.retries import BETWEEN_ROUNDS, GATEWAY_STATUSES

T = TypeVar("T")
CONTROLLER_VARIABLE = "GPU_KERNELS_CONTROLLER"
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Controllers:
    """The addresses of one pool's controllers, and which of them answered last. One of them is active."""

    def __init__(self, addresses: str) -> None:
        """``addresses``: URLs separated by commas. Raises ``PoolUnavailable`` for what is none."""
        self.urls = tuple(address.strip().rstrip("/") for address in addresses.split(",") if address.strip())
        for url in self.urls or (addresses,):
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.netloc:
                raise PoolUnavailable(
                    f"The GPU pool's address {url!r} is not an http or https URL.\n"
                    f"The administrator of this installation sets it in {CONTROLLER_VARIABLE}."
                )
        self.current = self.urls[0]

    def in_turn(self) -> Iterator[str]:
        """Each once, the one that answered last first; one that is named as the active one comes next."""
        left = [self.current, *(url for url in self.urls if url != self.current)]
        while left:
            yield left.pop(left.index(self.current) if self.current in left else 0)

    def name_active(self, address: object) -> None:
        """A standby says where the active one is. An address that is not ours is not believed: the token
        would go there.
        """
        if isinstance(address, str) and address.rstrip("/") in self.urls:
            self.current = address.rstrip("/")


@dataclass(frozen=True, slots=True)
class Try:
    """Send the request to this controller, for at most so many seconds."""

    url: str
    timeout: float
    connect: float

    def arguments(self, request: Request[Any]) -> dict[str, Any]:
        """For ``httpx.Client.request``."""
        arguments: dict[str, Any] = {
            "method": request.method,
            "url": f"{self.url}/api/v1{request.path}",
            "params": dict(request.params),
            "timeout": httpx.Timeout(self.timeout, connect=self.connect),
        }
        if isinstance(request.body, Resource):
            arguments |= {"content": encode(request.body), "headers": {"Content-Type": "application/json"}}
        elif request.body is not None:
            arguments["json"] = request.body
        return arguments


Reply = httpx.Response | httpx.TransportError | None
Exchange = Generator[Try | Pause, Reply, T]


def exchange(request: Request[T], controllers: Controllers, timeout: float) -> Exchange[T]:
    """Try until an answer, within ``timeout`` seconds besides the request's own wait.

    Yields a ``Try`` (send the answer or the transport's error) or a ``Pause`` (send None). Returns what was
    read; raises what was refused, or ``PoolUnavailable``.
    """
    end = time.monotonic() + timeout + request.wait
    pauses = list(BETWEEN_ROUNDS)
    sent = False
    while True:
        failure: PoolError | None = None
        for number, url in enumerate(controllers.in_turn()):
            left = max(0.05, end - time.monotonic())
            share = max(0.05, (left - request.wait) / (len(controllers.urls) - number)) + request.wait
            reply = yield Try(url, min(left, share), min(left, share, timeout))
            sent = sent or not isinstance(reply, _NEVER_SENT)
            away = _away(reply, url, several=len(controllers.urls) > 1)
            if away is None:
                assert isinstance(reply, httpx.Response)
                controllers.current = url
                again = _again_after(reply)
                if again is None or time.monotonic() + again >= end:
                    return _read(request, reply, url)
                yield Pause(again)
                failure = None
                break
            failure = away
            if isinstance(failure, NotActive):
                controllers.name_active(failure.details.get("address"))
            elif not request.repeatable and not isinstance(reply, _NEVER_SENT):
                raise failure  # a proxy's 502 or 504 too may come of a request that was carried out
        if failure is None:
            continue  # nothing was done, and the time to ask again was told
        if not pauses or time.monotonic() + pauses[0] >= end:
            if isinstance(failure, PoolUnavailable):
                failure.never_sent = not sent
            raise failure
        yield Pause(pauses.pop(0))


def _away(reply: Reply, url: str, *, several: bool) -> PoolError | None:
    """Why another controller, or a later try, may do better; None where this is the answer."""
    if not isinstance(reply, httpx.Response):
        assert reply is not None
        return unreachable(url, reply)
    if reply.status_code not in GATEWAY_STATUSES:
        return None
    if not reply.headers.get("content-type", "").startswith("application/json"):
        return from_json(reply.status_code, None)  # a proxy says so; the controller itself answers in JSON
    error = from_json(reply.status_code, _json(reply))
    return error if isinstance(error, NotActive) or (several and isinstance(error, PoolUnavailable)) else None


def _again_after(reply: httpx.Response) -> float | None:
    """When to ask again where the rate of requests was limited, None where it was not."""
    if reply.status_code != RateLimited.status:
        return None
    error = from_json(reply.status_code, _json(reply))
    return error.retry_after if isinstance(error, RateLimited) else None


def _read(request: Request[T], response: httpx.Response, url: str) -> T:
    body = response.text if request.plain and response.is_success else _json(response)
    if body is None or not response.is_success:
        raise from_json(response.status_code, body)
    try:
        return request.read(body)
    except (msgspec.ValidationError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise PoolUnavailable(
            f"What answered at {url} is not a pool controller of this version.",
            log_message=f"answer to {request.path} lacks what it should hold: {error!r}",
        ) from error


def _json(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def unreachable(url: str, error: Exception) -> PoolUnavailable:
    """What is told of a controller that did not answer."""
    why = "it did not answer in time" if isinstance(error, httpx.TimeoutException) else "no connection"
    return PoolUnavailable(
        f"The GPU pool does not answer ({why}).\n"
        "Your notebook and its files are not affected.\n"
        "Try again in a minute, or choose 'Python 3' to work without a GPU.",
        log_message=f"pool controller at {url}: {type(error).__name__}: {error}",
        retry_after=10.0,
    )


def client_arguments(headers: Mapping[str, str], verify: bool | str) -> dict[str, Any]:
    """For ``httpx.Client``: nothing of the environment, and no redirects, which could lead the token away."""
    return {"headers": dict(headers), "verify": verify, "trust_env": False, "follow_redirects": False}
