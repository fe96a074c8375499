"""The pool: reserve and release pairs a second, at the ledger and over HTTP, beside what the disk can do.

A pair is a reserve and a release, each its own transaction; an agent confirms the ends in batches beside
that. Each figure has the raw rate of SQLite commits of the same run next to it: one durable row a
transaction is the physical limit, and a pair needs two.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.figures import Figure, main, median
from gpu_kernels.client import PoolClient, Slot
from gpu_kernels.pool.ledger import Ledger, agents, asking, reading
from gpu_kernels.units import parse_size

ROUNDS = 5
RAW_COMMITS = 400
LEDGER_PAIRS = 100
HTTP_PAIRS = 60
CLIENTS = 4
GPU = {
    "index": 0,
    "gpu_class": "V100",
    "device": "software",
    "name": "Software GPU",
    "total_mib": 32768,
    "allocatable_mib": 32768,
}
SIZE = "0.001 V100"
LIMIT = 1_000_000


def rate(count: int, work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)


def raw_commits(folder: Path, number: int) -> float:
    """Durable one-row transactions a second, without anything of ours."""
    database = sqlite3.connect(folder / f"raw{number}.sqlite", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT)")

    def commit() -> None:
        for _ in range(RAW_COMMITS):
            database.execute("BEGIN IMMEDIATE")
            database.execute("INSERT INTO rows (text) VALUES ('a lease')")
            database.execute("COMMIT")

    found = rate(RAW_COMMITS, commit)
    database.close()
    return found


class AtTheLedger:
    """One thread that runs the transactions one after another."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}")
        self.ledger.start({"bench": {"V100": LIMIT}})
        offered = [agents.OfferedGpu(uuid="GPU-0", **GPU)]  # type: ignore[arg-type]
        self.ledger.write(
            lambda tx: agents.register(
                tx, "gpu0", owner="bench", may_take_over=False, boot_id="1", address="tcp://x:1",
                version="1", gpus=offered,
            )
        )  # fmt: skip
        self.count = 0

    def pair(self) -> None:
        self.count += 1
        wish = asking.Wish(
            "ada", ["bench"], "bench", parse_size(SIZE), str(self.count), "", str(self.count), "h", 0, {}
        )
        lease_id, _ = self.ledger.write(lambda tx: asking.reserve(tx, wish).id)
        self.ledger.write(lambda tx: asking.release(tx, "ada", lease_id, "h").id)

    def confirm(self) -> None:
        newest = self.ledger.read(lambda tx: reading.agent_target(tx, "gpu0")[0])
        self.ledger.write(
            lambda tx: agents.report(tx, "gpu0", owner="bench", boot_id="1", done_seq=newest, alive={})
        )

    def measure(self) -> float:
        found = rate(LEDGER_PAIRS, lambda: [self.pair() for _ in range(LEDGER_PAIRS)] and None)
        self.confirm()
        return found


class OverHttp:
    """A controller in a process of its own, on a loopback port; the clients are threads of this one."""

    def __init__(self, folder: Path) -> None:
        state = folder / "state"
        state.mkdir(mode=0o700)
        entry = {"name": "ada", "groups": ["bench"], "scopes": ["custom:gpu:use", "custom:gpu:agent"]}
        tokens, url_file, config = state / "tokens.json", state / "url", state / "config.json"
        tokens.touch(mode=0o600)
        tokens.write_text(json.dumps({hashlib.sha256(b"bench").hexdigest(): entry}))
        courses = {"bench": {"V100": {"thousandths": LIMIT}}}
        settings = {
            "state_dir": str(state),
            "port": 0,
            "courses": courses,
            "log_level": "WARN",
            "max_requests": 1e6,
            "url_file": str(url_file),
        }
        config.write_text(json.dumps({"PoolController": settings}))
        self.process = subprocess.Popen([sys.executable, "-m", "gpu_kernels.pool", f"--config={config}"])
        while not url_file.exists():
            if self.process.poll() is not None:
                raise RuntimeError("the controller did not start")
            time.sleep(0.02)
        self.client = PoolClient(url_file.read_text(), "bench")
        self.client.register_agent(
            "gpu0", boot_id="1", address="tcp://x:1", version="1", gpus=[{"uuid": "GPU-0", **GPU}]
        )
        self.count = 0

    def close(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait()

    def pair(self, number: int) -> None:
        name = str(number)
        lease = self.client.ask(SIZE, key=name, slot=Slot("", name), holder="h")
        self.client.release(lease.id, "h")

    def measure(self, clients: int) -> float:
        numbers = range(self.count, self.count + HTTP_PAIRS * clients)
        self.count = numbers.stop
        with ThreadPoolExecutor(clients) as pool:
            found = rate(len(numbers), lambda: list(pool.map(self.pair, numbers)) and None)
        newest = self.client.report_agent("gpu0", boot_id="1", target_seq=0, leases=[]).target_seq
        self.client.report_agent("gpu0", boot_id="1", target_seq=newest, leases=[])
        return found


def measure() -> list[Figure]:
    """Rounds of all four in turn, so that a noisy moment of the machine hits all alike."""
    samples: dict[str, list[float]] = {"raw": [], "ledger": [], "http": [], "http_many": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ledger, http = AtTheLedger(folder), OverHttp(folder)
        for number in range(ROUNDS):
            samples["raw"].append(raw_commits(folder, number))
            samples["ledger"].append(ledger.measure())
            samples["http"].append(http.measure(1))
            samples["http_many"].append(http.measure(CLIENTS))
        http.close()
        ledger.ledger.close()
    raw, pairs = median(samples["raw"]), median(samples["ledger"])
    return [
        Figure("SQLite commits, raw", raw, "1/s", "higher"),
        Figure("pairs at the ledger", pairs, "pairs/s", "higher"),
        Figure("pairs over HTTP, one client", median(samples["http"]), "pairs/s", "higher"),
        Figure(f"pairs over HTTP, {CLIENTS} clients", median(samples["http_many"]), "pairs/s", "higher"),
        Figure("a pair at the ledger, in raw commits", raw / pairs, "commits", "lower"),
    ]


if __name__ == "__main__":
    main(measure, __doc__)
