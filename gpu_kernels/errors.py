"""Every refusal has one class here: a code for programs, a text for the user, a text for the log.

``PoolError`` and its subclasses travel: the controller writes one as JSON (``to_json``), the client raises
the same class again (``from_json``). Other parts derive their own errors from ``GPUKernelsError``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class GPUKernelsError(Exception):
    """Base of the project's errors.

    ``message`` is for the user, verbatim: what, how much, until when, what to do now. ``log_message`` is
    for the operator's log and may name what a user should not see; it never holds a secret or a token.
    ``retry_after`` is in seconds, None where trying again will not help. ``details`` holds the numbers of
    the text, for programs.
    """

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500

    def __init__(
        self,
        message: str,
        *,
        log_message: str | None = None,
        retry_after: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.log_message = log_message or message
        self.retry_after = retry_after
        self.details: dict[str, Any] = dict(details or {})

    def to_json(self) -> dict[str, Any]:
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "retry_after": self.retry_after,
                "details": self.details,
            }
        }


class LeaseLost(GPUKernelsError):
    """A lease that a program holds is over, or could not be renewed in time; it travels nowhere."""

    code = "lease_lost"


class PoolError(GPUKernelsError):
    """A fault of the controller: its log says more, by the name in `details`. Base of all that travels."""

    code = "internal"
    status = 500

    never_sent = False
    """Whether the request surely reached nobody."""


class InvalidRequest(PoolError):
    """The request itself is wrong; asking again will not help."""

    code = "bad_request"
    status = 400


class InvalidSize(InvalidRequest, ValueError):
    """The text of a size could not be read."""

    code = "invalid_size"


class CourseAmbiguous(InvalidRequest):
    """No course was named and the user has none, or several."""

    code = "course_ambiguous"


class TooLarge(InvalidRequest):
    """The body is longer than the controller reads."""

    code = "too_large"
    status = 413


class Unauthenticated(PoolError):
    """No token, or one that is wrong or has expired."""

    code = "unauthenticated"
    status = 401


class RateLimited(PoolError):
    """Too much comes at once from there: tokens that nobody knows, or connections. Nothing was done."""

    code = "rate_limited"
    status = 429


class Forbidden(PoolError):
    """The token is good and does not allow this."""

    code = "forbidden"
    status = 403


class NotAMember(Forbidden):
    """The user does not belong to the course."""

    code = "not_a_member"


class AddressRefused(Forbidden):
    """No GPU server may be at the address that this one announces."""

    code = "address_refused"


class NotFound(PoolError):
    """No such address, or nothing there that the caller may see."""

    code = "not_found"
    status = 404


class UnknownVersion(NotFound):
    """The address names a version of the API that this controller does not speak."""

    code = "unknown_version"


class UnknownLease(NotFound):
    """No such lease, or another user's."""

    code = "unknown_lease"


class UnknownCourse(NotFound):
    """No such course."""

    code = "unknown_course"


class UnknownAccount(NotFound):
    """No such account of the quota tree."""

    code = "unknown_account"


class UnknownClassHour(NotFound):
    """No such class hour, or one that was cancelled."""

    code = "unknown_class_hour"


class UnknownAgent(NotFound):
    """The agent has not registered, or the ledger is a new one: register (again)."""

    code = "unknown_agent"


class UnknownAgentToken(NotFound):
    """No such token of a GPU server."""

    code = "unknown_agent_token"


class MethodNotAllowed(PoolError):
    """The address does not take this method; `details` names those that it takes."""

    code = "method_not_allowed"
    status = 405


class Conflict(PoolError):
    """The request contradicts what the ledger holds."""

    code = "conflict"
    status = 409


class KeyReused(Conflict):
    """The idempotency key belongs to a living lease that was asked for in other words."""

    code = "key_reused"


class AgentReplaced(Conflict):
    """Another agent process has registered under this name since."""

    code = "agent_replaced"


class AgentElsewhere(Conflict):
    """The GPU server of this name answers from another address, or by another token."""

    code = "agent_elsewhere"


class Refused(PoolError):
    """The request is right and cannot be granted now, or not by this pool."""

    code = "refused"
    status = 409


class CourseLimit(Refused):
    """The course already holds what it may hold at once."""

    code = "course_limit"


class PoolFull(Refused):
    """Nothing that fits is free."""

    code = "pool_full"


class NoSuchClass(Refused):
    """The pool has no GPU of that class."""

    code = "no_such_class"


class SliceTooLarge(Refused):
    """More than one GPU (or one GPU server) of the pool can offer even when empty."""

    code = "slice_too_large"


class ClassHourFull(Refused):
    """The seats of a class hour do not fit beside what is there; `details` says how many would, and when."""

    code = "class_hour_full"


class TooMany(Refused):
    """The user holds, waits for, or asks for more at once than any one user may."""

    code = "too_many"


class SizeLimit(Refused):
    """A larger slice than one lease of the course may have."""

    code = "size_limit"


class CoursePaused(Refused):
    """The course gives out nothing new at the moment."""

    code = "course_paused"


class BudgetSpent(Refused):
    """The course, or the user in it, has used up its GPU-hours for the time being."""

    code = "budget_spent"


class LedgerUnavailable(PoolError):
    """The ledger cannot be written now (disk full, I/O error, locked); nothing was changed."""

    code = "ledger_unavailable"
    status = 503


class OutcomeUnknown(LedgerUnavailable):
    """The connection to the ledger broke while it committed: what was asked may have happened or not."""

    code = "outcome_unknown"


class AuthenticationUnavailable(PoolError):
    """The hub, which knows the tokens, does not answer."""

    code = "hub_unavailable"
    status = 503


class PoolUnavailable(PoolError):
    """The controller is being stopped; or, of the client's own: nobody answered as a controller does."""

    code = "pool_unavailable"
    status = 503


class NotActive(PoolUnavailable):
    """Another controller is the active one; ``details["address"]`` says where, if that is known."""

    code = "not_active"


AWAY = (PoolUnavailable, LedgerUnavailable, AuthenticationUnavailable)
"""Answers that may be others in a moment, unlike a refusal."""


def _all_codes(base: type[PoolError]) -> dict[str, type[PoolError]]:
    found = {base.code: base}
    for child in base.__subclasses__():
        found |= _all_codes(child)
    return found


BY_CODE: Mapping[str, type[PoolError]] = {**_all_codes(PoolError), "internal": PoolError}
"""Each code that travels, and its class."""


def from_json(status: int, body: object) -> PoolError:
    """The error that a controller sent, as its own class; an unknown code becomes the nearest one by
    status.
    """
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return PoolUnavailable(
            f"The GPU pool's address answered with HTTP {status}, but not as a pool controller does.\n"
            "Check the controller's address, or ask the hub's administrator.",
            details={"status": status},
        )
    known = BY_CODE.get(str(error.get("code")))
    if known is None:
        by_status = {401: Unauthenticated, 403: Forbidden, 404: NotFound, 409: Refused}
        known = by_status.get(status, InvalidRequest if 400 <= status < 500 else PoolError)
    retry_after = error.get("retry_after")
    details = error.get("details")
    return known(
        error["message"],
        log_message=f"{error.get('code')} (HTTP {status}): {error['message']}",
        retry_after=float(retry_after) if isinstance(retry_after, int | float) else None,
        details=details if isinstance(details, dict) else None,
    )
