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
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure, main, median
from benchmarks.pool_rig import SIZE, Controller, LedgerRig
from gpu_kernels.client import AsyncPoolClient, Lease, Slot
from gpu_kernels.pool.ledger.stores.sql import SqlStore


@dataclass(frozen=True)
class Sizes:
    """How much is measured. ``queued``: askers at once, where grants come as they queue. ``small`` and
    ``large``: GPU servers (eight GPUs each) and leases in force, before and after they grew tenfold.
    """

    rounds: int = 5
    raw_commits: int = 300
    grants: int = 200
    queued: int = 100
    renewed: int = 10_000
    students: int = 500
    within: float = 60.0
    http_pairs: int = 100
    clients: int = 8
    small: tuple[int, int] = (12, 400)
    large: tuple[int, int] = (120, 4_000)


SMALLEST = Sizes(1, 3, 4, 2, 10, 3, 0.3, 2, 2, (1, 4), (2, 40))


def rate(count: int, work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)


def raw_commits(folder: Path, commits: int) -> float:
    """Durable one-row transactions a second, without anything of ours."""
    database = sqlite3.connect(folder / "raw.sqlite", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, text TEXT)")

    def commit() -> None:
        for _ in range(commits):
            database.execute("BEGIN IMMEDIATE")
            database.execute("INSERT INTO rows (text) VALUES ('a lease')")
            database.execute("COMMIT")

    found = rate(commits, commit)
    database.close()
    return found


@contextmanager
def databases(folder: Path) -> Iterator[dict[str, str]]:
    """The URLs of new databases by their kind."""
    from tests.pool.stores.postgresql import running_server

    with running_server() as server:
        yield {"SQLite": f"sqlite:///{folder / 'ledger.sqlite'}", "PostgreSQL": server.new_database()}


def grants(rig: LedgerRig, sizes: Sizes) -> tuple[float, float, float]:
    """Grants a second: one at a time, and as they queue; and seconds of a processor for one of these."""
    alone = rate(sizes.grants, lambda: rig.reserve(sizes.grants, together=1))
    rig.end_new()
    before = time.process_time()
    number = 2 * sizes.grants
    queued = rate(number, lambda: rig.reserve(number, together=sizes.queued))
    worked = (time.process_time() - before) / number
    rig.end_new()
    return alone, queued, worked


def at_the_ledger(folder: Path, sizes: Sizes) -> list[Figure]:
    figures: list[Figure] = []
    aims = {"SQLite": 500.0, "PostgreSQL": 300.0}
    with databases(folder) as urls:
        rigs = {name: LedgerRig(SqlStore(url), *sizes.small) for name, url in urls.items()}
        samples: dict[str, list[tuple[float, float, float]]] = {name: [] for name in rigs}
        raw = []
        for _ in range(sizes.rounds):
            raw.append(raw_commits(folder, sizes.raw_commits))
            for name, rig in rigs.items():
                samples[name].append(grants(rig, sizes))
        figures.append(Figure("durable commits of this disk, raw (SQLite)", median(raw), "1/s", "higher"))
        for name, rig in rigs.items():
            alone, queued, worked = (median(column) for column in zip(*samples[name], strict=True))
            figures += [
                Figure(f"grants at the ledger, {name}, as they queue", queued, "1/s", "higher", aims[name]),
                Figure(f"processor time of such a grant, {name}", 1000 * worked, "ms", "lower"),
                Figure(f"grants at the ledger, {name}, one at a time", alone, "1/s", "higher"),
            ]
            rig.hold(sizes.renewed)
            for users, text in ((1, "one call"), (sizes.renewed // 2, "two to a call")):
                seconds = median(rig.renew_everything(users) for _ in range(3))
                figures.append(
                    Figure(f"renewal of {sizes.renewed} leases, {name}, {text}", seconds, "s", "lower", 1.0)
                )
            rig.close()
    return figures


def tenfold(folder: Path, sizes: Sizes) -> list[Figure]:
    """Grants as they queue, with ten times the servers and leases."""
    found = {}
    for name, size in (("small", sizes.small), ("large", sizes.large)):
        rig = LedgerRig(SqlStore(f"sqlite:///{folder / name}.sqlite"), *size)
        found[name] = median(grants(rig, sizes)[1] for _ in range(3))
        rig.close()
    small, large = sizes.small, sizes.large
    text = f"{small[0]} servers and {small[1]} leases to {large[0]} and {large[1]}"
    return [
        Figure(
            f"grants as they queue, {large[0]} servers, {large[1]} leases", found["large"], "1/s", "higher"
        ),
        Figure(f"slower by, from {text}", found["small"] / found["large"], "times", "lower"),
    ]


async def pairs(url: str, clients: int, wanted: int) -> float:
    """Reserve and release pairs a second."""
    numbers = iter(range(10**9))

    async def one(client: AsyncPoolClient) -> None:
        for _ in range(wanted // clients):
            name = f"{clients}-{next(numbers)}"
            lease = await client.ask(SIZE, key=name, slot=Slot("", name), holder="h")
            await client.release(lease.id, "h")

    users = [AsyncPoolClient(url, f"student{number}") for number in range(clients)]
    started = time.perf_counter()
    await asyncio.gather(*(one(client) for client in users))
    seconds = time.perf_counter() - started
    for client in users:
        await client.aclose()
    return wanted // clients * clients / seconds


async def class_begins(url: str, students: int, within: float) -> tuple[list[float], list[str]]:
    """Each student opens one GPU notebook within a minute: how long each waits for the answer, in seconds,
    and what was refused.
    """
    arrivals = random.Random(1)
    waited: list[float] = []
    refused: list[str] = []

    async def student(number: int) -> None:
        await asyncio.sleep(arrivals.uniform(0, within))
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

    await asyncio.gather(*(student(number) for number in range(students)))
    return sorted(waited), refused


def over_http(folder: Path, sizes: Sizes) -> list[Figure]:
    with Controller(folder, max(sizes.students, sizes.clients)) as controller:
        one = asyncio.run(pairs(controller.url, 1, sizes.http_pairs))
        many = asyncio.run(pairs(controller.url, sizes.clients, sizes.http_pairs))
        controller.confirm()
        waited, refused = asyncio.run(class_begins(controller.url, sizes.students, sizes.within))
    for text in refused[:3]:
        print(f"refused: {text}", file=sys.stderr)
    text = f"{sizes.students} students asking within {sizes.within:g} s over HTTP"
    return [
        Figure("pairs over HTTP, one client", one, "pairs/s", "higher"),
        Figure(f"pairs over HTTP, {sizes.clients} clients", many, "pairs/s", "higher"),
        Figure(f"{text}: p50", 1000 * waited[len(waited) // 2], "ms", "lower"),
        Figure(f"{text}: p99", 1000 * waited[math.ceil(0.99 * len(waited)) - 1], "ms", "lower", 250.0),
        Figure(f"{text}: refused wrongly", len(refused), "requests", "lower", 0.0),
    ]


def measure(smallest: bool) -> list[Figure]:
    figures, sizes = [], SMALLEST if smallest else Sizes()
    for part in (at_the_ledger, tenfold, over_http):
        with tempfile.TemporaryDirectory() as name:
            figures += part(Path(name), sizes)
    return figures


if __name__ == "__main__":
    main(measure, __doc__)
