"""One run: kills and stops at random moments, then the check of what happened."""

from __future__ import annotations

import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.kills.checker import Checker, told, uses
from benchmarks.kills.cluster import FENCES_AFTER, TERM_TTL, Cluster
from gpu_kernels.pool.ledger.state.rows import TABLES
from gpu_kernels.pool.ledger.stores.sql import SqlStore, rows_of

STOP_EVERY = 10
"""One SIGSTOP beyond the time to live for so many kills."""


@dataclass
class Outcome:
    """What was done to the pool, what it did meanwhile, and what was wrong with that."""

    kills: Counter[str] = field(default_factory=Counter)
    stops: Counter[str] = field(default_factory=Counter)
    grants: int = 0
    workers: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    fenced: int = 0
    terms: int = 0
    mismatch: float = 0.0
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)


def run(
    kills: int, database_url: str, *, seed: int, clients: int = 5, agents: int = 2, keep: Path | None = None
) -> Outcome:
    """Kill so many processes at moments that ``seed`` draws, and check the histories. ``keep``: an empty
    folder for everything that is left behind."""
    outcome, started = Outcome(), time.monotonic()
    with _folder(keep) as folder:
        cluster = Cluster(folder, database_url, clients=clients, agents=agents, seed=seed)
        try:
            cluster.start()
            _trouble(cluster, outcome, kills, random.Random(seed))
            cluster.settle()
            outcome.mismatch = cluster.mismatch()
        finally:
            cluster.end()
        _check(outcome, cluster, database_url)
    outcome.seconds = time.monotonic() - started
    return outcome


def _trouble(cluster: Cluster, outcome: Outcome, kills: int, draw: random.Random) -> None:
    for number in range(kills):
        if draw.random() < 0.6:  # while the pool works; otherwise whatever it does just then
            cluster.until(lambda: cluster.active() is not None, 60.0, "a controller is active")
        time.sleep(draw.uniform(0.05, 1.8))
        if number % STOP_EVERY == STOP_EVERY // 2:
            _stop_one(cluster, outcome, draw)
        kind = draw.choice(("controller", "controller", "agent"))
        if kind == "controller":
            active = cluster.active() if draw.random() < 0.8 else None
            victim = active or draw.choice(cluster.controllers)
        else:
            victim = draw.choice(cluster.agents)
        victim.kill()
        outcome.kills[kind] += 1
        time.sleep(draw.choice((0.0, 0.0, 0.3)))
        victim.start()


def _stop_one(cluster: Cluster, outcome: Outcome, draw: random.Random) -> None:
    """Let one stand still for longer than it may be trusted, and go on then."""
    if draw.random() < 0.5:
        victim, kind, seconds = cluster.active() or cluster.controllers[0], "controller", TERM_TTL * 2
    else:
        victim, kind, seconds = draw.choice(cluster.agents), "agent", FENCES_AFTER * 1.1 + 11.0
        seconds = draw.choice((FENCES_AFTER + 1.0, seconds + 3.0))
    if victim.ended():
        return
    victim.signal(signal.SIGSTOP)
    time.sleep(seconds)
    victim.signal(signal.SIGCONT)
    outcome.stops[kind] += 1


def _check(outcome: Outcome, cluster: Cluster, database_url: str) -> None:
    store = SqlStore(database_url)
    try:
        store.open()
        rows = rows_of(store, TABLES)
        leader = store.leader()
    finally:
        store.close()
    used, said = uses(cluster.history), told(cluster.history)
    checker = Checker(rows, used, said)
    outcome.violations = checker.check()
    if outcome.mismatch != 0:
        outcome.violations.append(f"pool_ledger_mismatch reads {outcome.mismatch}")
    outcome.grants = sum(1 for lease in checker.leases.values() if lease.epoch)
    outcome.workers = len(used)
    outcome.requests.update(f"{line['what']} {line['outcome']}" for line in said)
    outcome.fenced = sum(event.kind == "fenced" for event in checker.events)
    outcome.terms = leader[0].term if isinstance(leader, tuple) and leader[0] is not None else 0


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="kills-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
