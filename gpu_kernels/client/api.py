"""The API's calls as methods, declared once for threads and asyncio."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from gpu_kernels.client import admin_calls, calls
from gpu_kernels.client.requests import Request, Script

if TYPE_CHECKING:
    from gpu_kernels.client.aio import AsyncPoolClient
    from gpu_kernels.client.threads import PoolClient

P = ParamSpec("P")
T = TypeVar("T")


class Method(Generic[P, T]):
    """A method that sends one request: its arguments are those of the function that makes the request.

    On a ``PoolClient`` it returns the answer, on an ``AsyncPoolClient`` an awaitable of it.
    """

    def __init__(self, makes: Callable[P, Request[T]]) -> None:
        self.makes = makes
        self.__doc__ = makes.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Method[P, T]: ...

    @overload
    def __get__(self, client: PoolClient, owner: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, client: AsyncPoolClient, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self
        return lambda *arguments, **named: client.send(self.makes(*arguments, **named))


class ScriptMethod(Generic[P, T]):
    """A method of several requests, see ``calls``."""

    def __init__(self, makes: Callable[P, Script[T]]) -> None:
        self.makes = makes
        self.__doc__ = makes.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> ScriptMethod[P, T]: ...

    @overload
    def __get__(self, client: PoolClient, owner: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, client: AsyncPoolClient, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self
        return lambda *arguments, **named: client.run(self.makes(*arguments, **named))


class Api:
    """Every call of docs/reference/pool-api.md; the functions of ``calls`` and ``admin_calls`` say what each
    takes and gives.
    """

    ask = Method(calls.ask)
    get = Method(calls.get)
    wait_for = ScriptMethod(calls.wait_for)
    list = ScriptMethod(calls.leases)
    renew = Method(calls.renew)
    release = Method(calls.release)
    release_holder = ScriptMethod(calls.release_holder)
    release_server = Method(calls.release_server)
    revoke = Method(calls.revoke)
    pool = Method(calls.pool)
    courses = Method(calls.courses)
    course = Method(calls.course)
    set_limit = Method(calls.set_limit)
    class_hours = ScriptMethod(calls.class_hours)
    class_hour = Method(calls.class_hour)
    add_class_hour = Method(calls.add_class_hour)
    change_class_hour = Method(calls.change_class_hour)
    cancel_class_hour = Method(calls.cancel_class_hour)
    why = Method(calls.why)
    usage = Method(calls.usage)
    timeline = Method(calls.timeline)
    usage_table = Method(calls.usage_table)
    agents = Method(admin_calls.agents)
    register_agent = Method(admin_calls.register_agent)
    report_agent = Method(admin_calls.report_agent)
    set_standing = Method(admin_calls.set_standing)
    declare_lost = Method(admin_calls.declare_lost)
    agent_tokens = Method(admin_calls.agent_tokens)
    add_agent_token = Method(admin_calls.add_agent_token)
    remove_agent_token = Method(admin_calls.remove_agent_token)
    audit = Method(admin_calls.audit)
    all_events = ScriptMethod(admin_calls.all_events)
    state = Method(admin_calls.state)
    accounts = Method(admin_calls.accounts)
    account = Method(admin_calls.account)
    put_account = Method(admin_calls.put_account)
    remove_account = Method(admin_calls.remove_account)
    set_rules = Method(admin_calls.set_rules)
    set_course_rules = Method(admin_calls.set_course_rules)
    end_idle = Method(admin_calls.end_idle)
    set_quota = Method(admin_calls.set_quota)
    remove_quota = Method(admin_calls.remove_quota)
    read_groups = Method(admin_calls.read_groups)
