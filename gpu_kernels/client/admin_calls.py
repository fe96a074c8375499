"""The calls of GPU servers and of the pool's admins: what to send, and how to read the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_kernels.client.calls import leases_in
from gpu_kernels.client.requests import Page, Request, Script, all_pages, path_of, query_of
from gpu_kernels.resources.accounts import Account, AccountList, GroupsRead, QuotaOf, Removed
from gpu_kernels.resources.agents import (
    Agent,
    AgentList,
    AgentReport,
    AgentToken,
    AgentTokenList,
    Assignment,
    DeclaredLost,
    MadeAgentToken,
    Registered,
    Registration,
)
from gpu_kernels.resources.base import reader
from gpu_kernels.resources.events import Audit, AuditEvent
from gpu_kernels.resources.leases import Lease

_account = reader(Account)
_accounts = reader(AccountList)

_agents = reader(AgentList)
_agent_tokens = reader(AgentTokenList)
_audit = reader(Audit)


def agents() -> Request[tuple[Agent, ...]]:
    """All GPU servers (pool admin)."""
    return Request("GET", "/agents", lambda answer: _agents(answer).agents)


def register_agent(name: str, registration: Registration) -> Request[Registered]:
    """Register an agent; leases that ran under another boot of it are revoked."""
    return Request("PUT", path_of("agents", name), reader(Registered), registration)


def report_agent(name: str, report: AgentReport) -> Request[Assignment]:
    """Report the inventory; the answer is everything to serve, at once or when it changes within
    ``report.wait``. See docs/design/agent.md for the fields.
    """
    return Request("POST", path_of("agents", name, "report"), reader(Assignment), report, wait=report.wait)


def set_standing(
    name: str, standing: str, *, drain_by: str | None = None, ends_at: str | None = None
) -> Request[Agent]:
    """Open, cordon or drain a GPU server; times are ISO 8601, in UTC where they do not say."""
    body = {"standing": standing, "drain_by": drain_by, "ends_at": ends_at}
    return Request("PUT", path_of("agents", name, "standing"), reader(Agent), body)


def declare_lost(name: str) -> Request[DeclaredLost]:
    """Vouch that nothing runs on a GPU server any more: everything on it is freed."""
    return Request("POST", path_of("agents", name, "lost"), reader(DeclaredLost))


def agent_tokens() -> Request[tuple[AgentToken, ...]]:
    """The tokens that GPU servers were given, without the tokens (pool admin)."""
    return Request("GET", "/agent-tokens", lambda answer: _agent_tokens(answer).tokens)


def add_agent_token(agent: str) -> Request[MadeAgentToken]:
    """Make a token that speaks for this GPU server alone; the answer's ``token`` is never told again."""
    return Request("POST", "/agent-tokens", reader(MadeAgentToken), {"agent": agent}, repeatable=False)


def remove_agent_token(token_id: str) -> Request[AgentToken]:
    """Take a GPU server's token back; ``token_id`` is the ``id`` that it is listed with."""
    return Request("DELETE", path_of("agent-tokens", token_id), reader(AgentToken), repeatable=False)


def audit(
    *, subject: str | None = None, kind: str | None = None, limit: int = 200, after: str | None = None
) -> Request[Page[AuditEvent]]:
    """A page of the audit trail, newest first; ``after`` is the ``next`` of the page before."""
    params = query_of(subject=subject, kind=kind, limit=limit, after=after)
    return Request("GET", "/audit", _audit_page, params=params)


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


def all_events(*, subject: str | None = None, kind: str | None = None) -> Script[list[AuditEvent]]:
    """The whole audit trail of a subject or kind."""
    return (yield from all_pages(lambda more: audit(subject=subject, kind=kind, limit=1000, **more)))


def _audit_page(answer: Any) -> Page[AuditEvent]:
    page = _audit(answer)
    return Page(page.events, page.next)
