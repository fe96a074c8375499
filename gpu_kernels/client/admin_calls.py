"""The calls of GPU servers and of the pool's admins: what to send, and how to read the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_kernels.client.calls import leases_in
from gpu_kernels.client.requests import Page, Request, Script, all_pages, path_of, query_of
from gpu_kernels.resources.accounts import Account, AccountList, GroupsRead, QuotaOf, Removed
from gpu_kernels.resources.agents import Assignment
from gpu_kernels.resources.base import reader
from gpu_kernels.resources.leases import Lease

_account = reader(Account)
_accounts = reader(AccountList)


def agents() -> Request[list[dict[str, Any]]]:
    """All GPU servers (pool admin)."""
    return Request("GET", "/agents", lambda answer: list(answer["agents"]))


def register_agent(
    name: str,
    *,
    boot_id: str,
    address: str,
    version: str,
    gpus: Sequence[Mapping[str, Any]],
    fences_after: float = 0.0,
) -> Request[dict[str, Any]]:
    """Register an agent; leases that ran under another boot of it are revoked. ``fences_after``: seconds
    without an acknowledged report after which it has killed its workers by itself; 0: no promise.
    """
    body = {
        "boot_id": boot_id,
        "address": address,
        "version": version,
        "gpus": [dict(gpu) for gpu in gpus],
        "fences_after": fences_after,
    }
    return Request("PUT", path_of("agents", name), dict, body)


def report_agent(
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
) -> Request[Assignment]:
    """Report the inventory; the answer is everything to serve, at once or when it changes within ``wait``.
    See docs/design/agent.md for the fields.
    """
    body = {
        "boot_id": boot_id,
        "target_seq": target_seq,
        "incarnation": incarnation,
        "full": full,
        "epoch": epoch,
        "wait": wait,
        "leases": [dict(lease) for lease in leases],
        "outside": [dict(entry) for entry in outside],
    }
    return Request("POST", path_of("agents", name, "report"), reader(Assignment), body, wait=wait)


def set_standing(
    name: str, standing: str, *, drain_by: str | None = None, ends_at: str | None = None
) -> Request[dict[str, Any]]:
    """Open, cordon or drain a GPU server; times are ISO 8601, in UTC where they do not say."""
    body = {"standing": standing, "drain_by": drain_by, "ends_at": ends_at}
    return Request("PUT", path_of("agents", name, "standing"), dict, body)


def declare_lost(name: str) -> Request[dict[str, Any]]:
    """Vouch that nothing runs on a GPU server any more: everything on it is freed."""
    return Request("POST", path_of("agents", name, "lost"), dict)


def agent_tokens() -> Request[list[dict[str, Any]]]:
    """The tokens that GPU servers were given, without the tokens (pool admin)."""
    return Request("GET", "/agent-tokens", lambda answer: list(answer["tokens"]))


def add_agent_token(agent: str) -> Request[dict[str, Any]]:
    """Make a token that speaks for this GPU server alone; the answer's ``token`` is never told again."""
    return Request("POST", "/agent-tokens", dict, {"agent": agent}, repeatable=False)


def remove_agent_token(token_id: str) -> Request[dict[str, Any]]:
    """Take a GPU server's token back; ``token_id`` is the ``id`` that it is listed with."""
    return Request("DELETE", path_of("agent-tokens", token_id), dict, repeatable=False)


def audit(
    *, subject: str | None = None, kind: str | None = None, limit: int = 200, after: str | None = None
) -> Request[Page[dict[str, Any]]]:
    """A page of the audit trail, newest first; ``after`` is the ``next`` of the page before."""
    params = query_of(subject=subject, kind=kind, limit=limit, after=after)
    return Request("GET", "/audit", lambda answer: Page(answer["events"], answer["next"]), params=params)


def state() -> Request[dict[str, Any]]:
    """All that decides who is next, for ``python -m gpu_kernels.pool.replay``."""
    return Request("GET", "/state", dict)


def accounts() -> Request[list[Account]]:
    """The accounts of the quota tree that one may see."""
    return Request("GET", "/accounts", lambda answer: list(_accounts(answer).accounts))


def account(name: str) -> Request[Account]:
    """One account, with its quotas and rules."""
    return Request("GET", path_of("accounts", name), _account)


def put_account(name: str, **fields: Any) -> Request[Account]:
    """Make an account, or change it; ``fields`` are those of the body."""
    return Request("PUT", path_of("accounts", name), _account, fields)


def remove_account(name: str) -> Request[Removed]:
    """Remove an account that holds nothing and has none below it."""
    return Request("DELETE", path_of("accounts", name), reader(Removed), repeatable=False)


def set_rules(name: str, rules: Mapping[str, Any]) -> Request[Account]:
    """Replace an account's own rules."""
    return Request("PUT", path_of("accounts", name, "rules"), _account, dict(rules))


def set_course_rules(name: str, rules: Mapping[str, Any]) -> Request[Account]:
    """Replace what a course's instructors say of it, on top of the rules that they find."""
    return Request("PUT", path_of("courses", name, "rules"), _account, dict(rules))


def end_idle(name: str, idle: int) -> Request[list[Lease]]:
    """Take back the course's leases that have launched nothing for so many seconds."""
    return Request("POST", path_of("courses", name, "end-idle"), leases_in, {"idle": idle})


def set_quota(name: str, gpu_class: str, **limits: int | None) -> Request[QuotaOf]:
    """Set what an account has of a GPU class: nominal, borrowing_limit, lending_limit, hard_limit."""
    return Request("PUT", path_of("accounts", name, "quota", gpu_class), reader(QuotaOf), limits)


def remove_quota(name: str, gpu_class: str) -> Request[Account]:
    """Take a GPU class's quota from an account."""
    return Request("DELETE", path_of("accounts", name, "quota", gpu_class), _account, repeatable=False)


def read_groups() -> Request[GroupsRead]:
    """Have the controller read the hub's groups now."""
    return Request("POST", "/groups/read", reader(GroupsRead))


def all_events(*, subject: str | None = None, kind: str | None = None) -> Script[list[dict[str, Any]]]:
    """The whole audit trail of a subject or kind."""
    return (yield from all_pages(lambda more: audit(subject=subject, kind=kind, limit=1000, **more)))
