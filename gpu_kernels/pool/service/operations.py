"""What each method of a handler takes, gives and refuses, said once: parsed by it, and documented from it.

    @operation("End a lease", scope=USE, body=Release, answers={200: Lease}, errors=[UnknownLease])
    async def post(self, lease_id: str, *, body: Release) -> None:
        \"\"\"What the reference says below the summary.\"\"\"

The wrapper waits for the request's turn, checks that the token has the scope (with whatever filter: the
method checks what it is for), reads query and body, and hands them over as ``query`` and ``body``.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

import msgspec
from msgspec.json import decode, encode
from pydantic import BaseModel, ValidationError
from tornado.httputil import HTTPServerRequest
from tornado.web import RequestHandler

from gpu_kernels.errors import (
    AuthenticationUnavailable,
    Forbidden,
    InvalidRequest,
    LedgerUnavailable,
    NotActive,
    OutcomeUnknown,
    PoolError,
    PoolUnavailable,
    RateLimited,
    TooLarge,
    TooMany,
    Unauthenticated,
)
from gpu_kernels.pool.service.identity import ADMIN_POOL
from gpu_kernels.pool.service.parsing import read_body, read_query
from gpu_kernels.pool.service.schemas.base import Model, Query
from gpu_kernels.resources.base import Body, Resource

Method = TypeVar("Method", bound=Callable[..., Awaitable[None]])
Answer = type[Resource] | type[BaseModel] | str
NEVER_IN_PART = (ADMIN_POOL,)
"""Rights that a filter makes into none: there is no part of the pool that they could be for."""
ALWAYS: tuple[type[PoolError], ...] = (
    PoolUnavailable,
    NotActive,
    LedgerUnavailable,
    OutcomeUnknown,
    PoolError,
)
"""What any operation may answer."""


class Asked(Protocol):
    """What an operation needs of its handler: see ``base.Handler``."""

    request: HTTPServerRequest

    async def its_turn(self) -> None: ...

    def require(self, scope: str) -> None: ...

    def require_somewhere(self, scope: str) -> None: ...

    def raw_body(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Operation:
    """``answers``: by status, a model or a media type. ``who``: who may, in words, where the scope does not
    say it all. ``errors``: all kinds of refusal, the general ones included.
    """

    name: str
    summary: str
    description: str
    scope: str | None
    who: str | None
    query: type[Query] | None
    body: type[Model | Body] | None
    answers: Mapping[int, Answer]
    errors: tuple[type[PoolError], ...]
    anonymous: bool

    def check_answer(self, status: int, body: bytes) -> None:
        """Compare an answer with its schema; for tests. Raises ``AssertionError`` with the difference."""
        model = self.answers.get(status)
        if model is None or isinstance(model, str):
            raise AssertionError(f"{self.name} has no answer {status} in JSON")
        try:
            if issubclass(model, BaseModel):
                model.model_validate_json(body)
            elif json.loads(body) != json.loads(encode(decode(body, type=model))):
                raise msgspec.ValidationError("a field is unknown, or left out")
        except (ValidationError, msgspec.ValidationError) as error:
            raise AssertionError(
                f"{self.name} answers {status} otherwise than its schema says: {error}"
            ) from None

    def check_error(self, error: PoolError) -> None:
        """For tests: whether the reference names this error. Raises ``AssertionError``."""
        if error.code not in {kind.code for kind in self.errors}:
            raise AssertionError(f"{self.name} answers {error.code}, which its errors do not name")


def operation(
    summary: str,
    *,
    scope: str | None = None,
    who: str | None = None,
    query: type[Query] | None = None,
    body: type[Model | Body] | None = None,
    answers: Mapping[int, Answer],
    errors: Sequence[type[PoolError]] = (),
    anonymous: bool = False,
) -> Callable[[Method], Method]:
    """Make a handler's method an operation of the API; see the module."""

    def decorate(method: Method) -> Method:
        told = _all_errors(errors, scope, who, query, body, anonymous)
        made = Operation(
            method.__qualname__, summary, inspect.cleandoc(method.__doc__ or ""), scope, who, query, body,
            dict(answers), told, anonymous,
        )  # fmt: skip

        @functools.wraps(method)
        async def run(self: Asked, **path: str) -> None:
            await self.its_turn()
            if scope in NEVER_IN_PART:
                self.require(scope)
            elif scope is not None:
                self.require_somewhere(scope)
            given: dict[str, Any] = dict(path)
            if query is not None:
                given["query"] = read_query(query, self.request.query_arguments)
            elif self.request.query_arguments and not anonymous:
                read_query(Query, self.request.query_arguments)  # which has no fields, so it refuses
            if body is not None:
                given["body"] = read_body(body, self.raw_body())
            await method(self, **given)

        run.operation = made  # type: ignore[attr-defined]
        return cast(Method, run)

    return decorate


def operation_of(handler: type[RequestHandler], method: str | None) -> Operation | None:
    """The operation that a handler has for an HTTP method, if any."""
    return getattr(getattr(handler, (method or "").lower(), None), "operation", None)


def operations_of(handler: type[RequestHandler]) -> dict[str, Operation]:
    """All operations of a handler by HTTP method."""
    found = {method: operation_of(handler, method) for method in ("GET", "POST", "PUT", "PATCH", "DELETE")}
    return {method: made for method, made in found.items() if made is not None}


def _all_errors(
    own: Sequence[type[PoolError]],
    scope: str | None,
    who: str | None,
    query: type[Query] | None,
    body: type[Model | Body] | None,
    anonymous: bool,
) -> tuple[type[PoolError], ...]:
    told = list(own)
    if query is not None or not anonymous:
        told.append(InvalidRequest)
    if body is not None:
        told.append(TooLarge)
    if scope is not None or who is not None:
        told.append(Forbidden)
    if not anonymous:
        told += [Unauthenticated, AuthenticationUnavailable, RateLimited, TooMany]
    unique = dict.fromkeys([*told, *ALWAYS])
    return tuple(sorted(unique, key=lambda kind: (kind.status, kind.code)))
