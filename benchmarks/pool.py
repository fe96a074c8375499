"""The pool: grants, renewals and answers a second; at the ledger on SQLite and PostgreSQL, and over HTTP.

At the ledger a *grant* is a job that reserves; what was granted is released and confirmed between two rounds,
beside the clock. "One at a time" is one commit for each grant, so it can be no faster than the disk's own
durable commits, which stand next to it, measured in the same rounds. "As they queue" is what a controller
does: whatever came while one commit ran shares the next one.
"""

from __future__ import annotations

import asyncio
import math
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import Figure, main, median
from benchmarks.pool_rig import SIZE, Controller, LedgerRig
from gpu_kernels.client import AsyncPoolClient, Lease, Slot
from gpu_kernels.pool.ledger.stores.sql import SqlStore

ROUNDS = 5
RAW_COMMITS = 300
GRANTS = 200
QUEUED = 100
"""Askers at once, where grants come as they queue."""
RENEWED = 10_000
STUDENTS, WITHIN = 500, 60.0
HTTP_PAIRS = 100
CLIENTS = 8
SMALL, LARGE = (12, 400), (120, 4_000)
"""GPU servers (eight GPUs each) and leases in force, before and after they grew tenfold."""


def rate(count: int, work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)


def raw_commits(folder: Path) -> float:
    """Durable one-row transactions a second, without anything of ours."""
    database = sqlite3.connect(folder / "raw.sqlite", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, text TEXT)")

    def commit() -> None:
        for _ in range(RAW_COMMITS):
            database.execute("BEGIN IMMEDIATE")
            database.execute("INSERT INTO rows (text) VALUES ('a lease')")
            database.execute("COMMIT")

    found = rate(RAW_COMMITS, commit)
    database.close()
    return found


@contextmanager
def databases(folder: Path) -> Iterator[dict[str, str]]:
    """The URLs of new databases by their kind."""
    from tests.pool.stores.postgresql import running_server

    with running_server() as server:
        yield {"SQLite": f"sqlite:///{folder / 'ledger.sqlite'}", "PostgreSQL": server.new_database()}


def grants(rig: LedgerRig) -> tuple[float, float, float]:
    """Grants a second: one at a time, and as they queue; and seconds of a processor for one of these."""
    alone = rate(GRANTS, lambda: rig.reserve(GRANTS, together=1))
    rig.end_new()
    before = time.process_time()
    queued = rate(2 * GRANTS, lambda: rig.reserve(2 * GRANTS, together=QUEUED))
    worked = (time.process_time() - before) / (2 * GRANTS)
    rig.end_new()
    return alone, queued, worked


def at_the_ledger(folder: Path) -> list[Figure]:
    figures: list[Figure] = []
    aims = {"SQLite": 500.0, "PostgreSQL": 300.0}
    with databases(folder) as urls:
        rigs = {name: LedgerRig(SqlStore(url), *SMALL) for name, url in urls.items()}
        samples: dict[str, list[tuple[float, float, float]]] = {name: [] for name in rigs}
        raw = []
        for _ in range(ROUNDS):
            raw.append(raw_commits(folder))
            for name, rig in rigs.items():
                samples[name].append(grants(rig))
        figures.append(Figure("durable commits of this disk, raw (SQLite)", median(raw), "1/s", "higher"))
        for name, rig in rigs.items():
            alone, queued, worked = (median(column) for column in zip(*samples[name], strict=True))
            figures += [
                Figure(f"grants at the ledger, {name}, as they queue", queued, "1/s", "higher", aims[name]),
                Figure(f"processor time of such a grant, {name}", 1000 * worked, "ms", "lower"),
                Figure(f"grants at the ledger, {name}, one at a time", alone, "1/s", "higher"),
            ]
            rig.hold(RENEWED)
            for users, text in ((1, "one call"), (RENEWED // 2, "two to a call")):
                seconds = median(rig.renew_everything(users) for _ in range(3))
                figures.append(
                    Figure(f"renewal of {RENEWED} leases, {name}, {text}", seconds, "s", "lower", 1.0)
                )
            rig.close()
    return figures


def tenfold(folder: Path) -> list[Figure]:
    """Grants as they queue, with ten times the servers and leases."""
    found = {}
    for name, size in (("small", SMALL), ("large", LARGE)):
        rig = LedgerRig(SqlStore(f"sqlite:///{folder / name}.sqlite"), *size)
        found[name] = median(grants(rig)[1] for _ in range(3))
        rig.close()
    text = f"{SMALL[0]} servers and {SMALL[1]} leases to {LARGE[0]} and {LARGE[1]}"
    return [
        Figure(
            f"grants as they queue, {LARGE[0]} servers, {LARGE[1]} leases", found["large"], "1/s", "higher"
        ),
        Figure(f"slower by, from {text}", found["small"] / found["large"], "times", "lower"),
    ]


async def pairs(url: str, clients: int) -> float:
    """Reserve and release pairs a second."""
    numbers = iter(range(10**9))

    async def one(client: AsyncPoolClient) -> None:
        for _ in range(HTTP_PAIRS // clients):
            name = f"{clients}-{next(numbers)}"
            lease = await client.ask(SIZE, key=name, slot=Slot("", name), holder="h")
            await client.release(lease.id, "h")

    users = [AsyncPoolClient(url, f"student{number}") for number in range(clients)]
    started = time.perf_counter()
    await asyncio.gather(*(one(client) for client in users))
    seconds = time.perf_counter() - started
    for client in users:
        await client.aclose()
    return HTTP_PAIRS // clients * clients / seconds


async def class_begins(url: str) -> tuple[list[float], list[str]]:
    """Each student opens one GPU notebook within a minute: how long each waits for the answer, in seconds,
    and what was refused.
    """
    arrivals = random.Random(1)
    waited: list[float] = []
    refused: list[str] = []

    async def student(number: int) -> None:
        await asyncio.sleep(arrivals.uniform(0, WITHIN))
        client = AsyncPoolClient(url, f"student{number}", timeout=30.0)
        started = time.perf_counter()
        lease: Lease | None = None
        try:
            lease = await client.ask(SIZE, key="class", slot=Slot("", "class.ipynb"), holder="h")
        except Exception as error:
            refused.append(str(error))
        waited.append(time.perf_counter() - started)
        if lease is not None and not lease.in_force:
            refused.append(f"{lease.id} is {lease.state}")
        await client.aclose()

    await asyncio.gather(*(student(number) for number in range(STUDENTS)))
    return sorted(waited), refused


def over_http(folder: Path) -> list[Figure]:
    with Controller(folder, STUDENTS) as controller:
        one = asyncio.run(pairs(controller.url, 1))
        many = asyncio.run(pairs(controller.url, CLIENTS))
        controller.confirm()
        waited, refused = asyncio.run(class_begins(controller.url))
    for text in refused[:3]:
        print(f"refused: {text}")
    text = f"{STUDENTS} students asking within {WITHIN:g} s over HTTP"
    return [
        Figure("pairs over HTTP, one client", one, "pairs/s", "higher"),
        Figure(f"pairs over HTTP, {CLIENTS} clients", many, "pairs/s", "higher"),
        Figure(f"{text}: p50", 1000 * waited[len(waited) // 2], "ms", "lower"),
        Figure(f"{text}: p99", 1000 * waited[math.ceil(0.99 * len(waited)) - 1], "ms", "lower", 250.0),
        Figure(f"{text}: refused wrongly", len(refused), "requests", "lower", 0.0),
    ]


def measure() -> list[Figure]:
    figures = []
    for part in (at_the_ledger, tenfold, over_http):
        with tempfile.TemporaryDirectory() as name:
            figures += part(Path(name))
    return figures


if __name__ == "__main__":
    main(measure, __doc__)
