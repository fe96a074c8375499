"""What one user, however busy a script, cannot do to the pool."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from gpu_kernels.client import PoolClient
from gpu_kernels.errors import InvalidRequest, LedgerUnavailable, TooMany
from gpu_kernels.pool.ledger import Caps
from gpu_kernels.pool.ledger.commands import retention
from gpu_kernels.pool.ledger.commands.retention import prune
from gpu_kernels.pool.ledger.state.rows import Event, Lease
from gpu_kernels.pool.ledger.stores.memory import MemoryStore
from gpu_kernels.pool.service import history as history_module
from gpu_kernels.pool.service.desk import MOST_EACH as MOST_JOBS
from gpu_kernels.pool.service.desk import WHO
from gpu_kernels.pool.service.history import History
from gpu_kernels.pool.service.pace import MOST_USERS, Pace
from gpu_kernels.pool.service.waiting import MOST_EACH, Bells
from tests.pool.controller import Agent, ThreadedController, error_of, reserve, token, until
from tests.pool.rig import Rig


def fill(rig: Rig) -> None:
    """One user of another course takes the whole GPU."""
    rig.reserve("all.ipynb", "1 V100", user="zoe", groups=["cv202"])


def rows(rig: Rig, table: Any) -> int:
    return len(rig.rows(table))


def test_a_user_holds_no_more_leases_than_one_may(rig: Rig) -> None:
    rig.ledger.caps = Caps(living=3)
    for number in range(3):
        rig.reserve(f"{number}.ipynb", "0.001 V100")
    before = rows(rig, Lease)
    with pytest.raises(TooMany, match="already have 3 leases, and the limit is 3"):
        rig.reserve("4.ipynb", "0.001 V100")
    assert rows(rig, Lease) == before
    rig.reserve("4.ipynb", "0.001 V100", user="bob")


def test_a_change_of_kernel_is_not_refused_at_the_most_leases(rig: Rig) -> None:
    rig.ledger.caps = Caps(living=1)
    rig.reserve("a.ipynb", "0.001 V100")
    assert rig.reserve("a.ipynb", "0.002 V100")["state"] == "reserved"


def test_ended_leases_count_no_more(rig: Rig) -> None:
    rig.ledger.caps = Caps(living=1)
    for _ in range(3):
        rig.release(rig.reserve())


def test_a_user_waits_for_no_more_leases_than_one_may(rig: Rig) -> None:
    fill(rig)
    rig.ledger.caps = Caps(queued=2)
    for number in range(2):
        assert rig.reserve(f"{number}.ipynb", wait=60)["state"] == "queued"
    before = rows(rig, Lease)
    with pytest.raises(TooMany, match="already wait for 2 leases") as refusal:
        rig.reserve("3.ipynb", wait=60)
    assert refusal.value.retry_after
    assert rows(rig, Lease) == before
    assert rig.reserve("1.ipynb", "0.01 V100", wait=60)["state"] == "queued"
    assert rig.reserve("b.ipynb", user="bob", wait=60)["state"] == "queued"


def test_the_queue_has_an_end(rig: Rig) -> None:
    fill(rig)
    rig.ledger.caps = Caps(queue=2)
    for user in ("ada", "bob"):
        rig.reserve(user=user, wait=60)
    with pytest.raises(TooMany, match="queue is full: 2 requests wait"):
        rig.reserve(user="cid", wait=60)


def test_a_user_cannot_ask_faster_than_the_pace() -> None:
    now = 0.0
    pace = Pace(60, clock=lambda: now)
    for _ in range(60):
        pace.take("ada")
    with pytest.raises(TooMany, match="at most 60 such requests per minute") as refusal:
        pace.take("ada")
    assert refusal.value.retry_after == 1
    pace.take("bob")
    now = 1.0
    pace.take("ada")
    with pytest.raises(TooMany):
        pace.take("ada")


def test_the_pace_forgets_users_beyond_a_number() -> None:
    pace = Pace(1, clock=lambda: 0.0)
    for number in range(MOST_USERS + 5):
        pace.take(str(number))
    assert len(pace._left) == MOST_USERS


async def test_readers_of_the_history_wait_in_a_line_that_has_an_end() -> None:
    history, held = History(MemoryStore(lambda: 0)), threading.Event()
    asked: list[asyncio.Task[bool]] = []

    async def ask(who: str | None) -> bool:
        WHO.set(who)
        return await history.ask(lambda store: held.wait(60))

    try:
        for number in range(history_module.MOST_WAITING):
            asked.append(asyncio.create_task(ask(f"user{number % 50}")))
        await asyncio.sleep(0)
        with pytest.raises(LedgerUnavailable, match="more requests for its history"):
            await asyncio.create_task(ask("another"))
        asked[0].cancel()  # who goes away leaves the question to the thread
        await asyncio.sleep(0)
        with pytest.raises(LedgerUnavailable):
            await asyncio.create_task(ask("another"))
        held.set()
        await asyncio.gather(*asked[1:])
        assert await asyncio.create_task(ask("another"))
    finally:
        held.set()
        history.close()


async def test_one_users_questions_to_the_history_leave_room_for_the_others() -> None:
    history, held = History(MemoryStore(lambda: 0)), threading.Event()

    async def ask(who: str) -> bool:
        WHO.set(who)
        return await history.ask(lambda store: held.wait(60))

    try:
        asked = [asyncio.create_task(ask("mallory")) for _ in range(history_module.MOST_EACH)]
        await asyncio.sleep(0)
        with pytest.raises(TooMany, match="the limit for each user"):
            await asyncio.create_task(ask("mallory"))
        asked.append(asyncio.create_task(ask("ada")))
        await asyncio.sleep(0)
        held.set()
        assert await asyncio.gather(*asked) == [True] * len(asked)
    finally:
        held.set()
        history.close()


def test_the_rate_limit_is_told_in_numbers() -> None:
    now = [0.0]
    pace = Pace(2, clock=lambda: now[0])
    pace.take("ada")
    pace.take("ada")
    with pytest.raises(TooMany) as refused:
        pace.take("ada")
    assert refused.value.message == (
        "Rate limit: at most 2 such requests per minute for each user.\n"
        "This one was not carried out. Try again in 30 s."
    )
    now[0] = 30.0
    pace.take("ada")


def test_sums_over_the_whole_ledger_are_not_for_a_loop(controller: ThreadedController, agent: Agent) -> None:
    controller.app.service.pace._most = 2
    headers = {"X-Forwarded-For": "192.0.2.1", "Authorization": f"token {token('ada')}"}
    told = [httpx.get(f"{controller.url}/health", headers=headers).status_code for _ in range(3)]
    assert told == [200, 200, TooMany("").status]
    reserve(controller.client("ada"))


def test_a_controller_keeps_to_its_pace(controller: ThreadedController, agent: Agent) -> None:
    controller.app.service.pace._most = 2
    ada = controller.client("ada")
    for number in range(2):
        reserve(ada, f"{number}.ipynb", "0.001 V100")
    with pytest.raises(TooMany):
        reserve(ada, "3.ipynb", "0.001 V100")


async def test_one_user_cannot_hold_all_connections() -> None:
    bells = Bells()
    with ExitStack() as stack:
        for number in range(MOST_EACH):
            stack.enter_context(bells.at(str(number), "ada"))
        with pytest.raises(TooMany), bells.at("more", "ada"):
            pass
        with bells.at("more", "bob"):
            assert len(bells) == MOST_EACH + 1
    assert len(bells) == 0
    await asyncio.wait_for(bells.close(), 5)


async def test_a_users_flood_of_requests_is_refused_and_nobody_elses(
    controller: ThreadedController, agent: Agent
) -> None:
    desk, go_on = controller.app.service.desk, threading.Event()

    async def ask(client: httpx.AsyncClient, name: str) -> httpx.Response:
        headers = {"Authorization": f"token {token(name)}"}
        return await client.get(f"{controller.url}/api/v1/leases", headers=headers)

    refused: list[httpx.Response] = []
    flooded = asyncio.Event()

    def answered(task: asyncio.Task[httpx.Response]) -> None:
        refused.append(task.result())
        if len(refused) == 30:
            flooded.set()

    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(timeout=60, trust_env=False, limits=limits) as client:
        stuck = asyncio.run_coroutine_threadsafe(desk.write(lambda _: go_on.wait(60)), controller._loop)
        try:
            flood = [asyncio.create_task(ask(client, "ada")) for _ in range(MOST_JOBS + 30)]
            for task in flood:
                task.add_done_callback(answered)
            await asyncio.wait_for(flooded.wait(), 60)
            others = [asyncio.create_task(ask(client, name)) for name in ("bob", "eve", "grace")]
        finally:
            go_on.set()
        assert [answer.status_code for answer in await asyncio.gather(*others)] == [200] * 3
        assert Counter(answer.status_code for answer in await asyncio.gather(*flood)) == {
            200: MOST_JOBS,
            409: 30,
        }
        assert error_of(refused[0])["code"] == "too_many"
        assert (await ask(client, "ada")).status_code == 200
    assert stuck.result(60)
    assert not desk._each


def test_pruning_goes_on_until_nothing_old_is_left(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PRUNE_BATCH", 2)
    for number in range(7):
        rig.release(rig.reserve(f"{number}.ipynb", "0.001 V100"))
    rig.report()
    rig.now += rig.ledger.timing.remember_ended + 1
    rounds = 0
    while rig.write(lambda tx: prune(tx, tx.now)):
        rounds += 1
    assert rounds > 3
    assert (rows(rig, Lease), rows(rig, Event)) == (0, 1), "the newest event keeps the count"


def test_the_audit_trail_is_bounded_in_number(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "MOST_EVENTS", 3)
    for number in range(5):
        rig.reserve(f"{number}.ipynb", "0.001 V100")
    rig.write(lambda tx: prune(tx, 0))
    assert rows(rig, Event) == 3


CONTROLS = ["\n", "\x1b[2J", "\x7f", "\x85", "\u2028", "\u202e"]


@pytest.mark.parametrize("bad", CONTROLS)
@pytest.mark.parametrize("field", ["key", "holder", "path", "label", "label name"])
def test_no_text_with_control_characters_gets_in(
    controller: ThreadedController, field: str, bad: str
) -> None:
    ada: PoolClient = controller.client("ada")
    text = f"a{bad}b"
    labels = {"label": {"x": text}, "label name": {text: "x"}}.get(field, {})
    with pytest.raises(InvalidRequest, match="control characters"):
        reserve(
            ada,
            path=text if field == "path" else "a.ipynb",
            key=text if field == "key" else "k",
            holder=text if field == "holder" else "h",
            labels=labels,
        )


def test_an_address_cannot_write_lines_into_the_log(
    controller: ThreadedController, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    headers = {"Authorization": f"token {token('root')}"}
    url = f"{controller.url}/api/v1/courses/ml%0AERROR%20all%20is%20lost%1B%5B2J"
    assert httpx.get(url, headers=headers).status_code == 404

    def messages() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name.startswith("gpu_kernels")]

    until(lambda: any("is lost" in message for message in messages()), "the answered request is logged")
    assert all(message.isprintable() for message in messages())
