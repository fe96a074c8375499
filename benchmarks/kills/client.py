"""One client of the pool: asks, uses, renews and gives back, again and again, and writes down what it was
told.

``python -m benchmarks.kills.client URLS TOKEN FILE SEED``. Each line of FILE is what was asked (``invoke``)
or its outcome: ``ok``, ``fail`` (refused), or ``info`` (nobody knows). SIGTERM ends it when it has given back
what it holds.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

from gpu_kernels.client import Lease, PoolClient, Slot
from gpu_kernels.errors import PoolError, PoolUnavailable, Refused, TooMany, UnknownLease
from gpu_kernels.remoting.hello import Hello

SIZES = ("0.4 V100", "0.4 V100", "0.5 V100", "300 MiB", "0.1 V100")
RENEW_EVERY_S = 0.6
ABANDONS = 0.15
"""How often a client never gives back, as one that was killed."""


class Client:
    def __init__(self, urls: str, token: str, history: Path, seed: int) -> None:
        self._pool = PoolClient(urls, token, timeout=4.0)
        self._name = history.stem
        self._file = history.open("a", buffering=1)
        self._random = random.Random(seed)
        self._count = 0
        self.stopping = False

    def note(self, what: str, outcome: str, started: float, **facts: Any) -> None:
        line = {"what": what, "outcome": outcome, "start": started, "end": time.time(), **facts}
        self._file.write(json.dumps(line) + "\n")

    def run(self) -> None:
        while not self.stopping:
            self._count += 1
            lease = self._reserve(f"{self._name}-{self._count}")
            if lease is not None and self._use(lease):
                self._release(lease)
        self._file.close()

    def _reserve(self, key: str) -> Lease | None:
        """Ask until it is known what became of it; a repeated key must name the same lease."""
        size = self._random.choice(SIZES)
        path = f"{self._name}-{self._count % 4}"
        for _ in range(40):
            started = time.time()
            self.note("reserve", "invoke", started, key=key)
            try:
                lease = self._pool.ask(
                    size, key=key, slot=Slot("", path), holder=key, wait=self._random.choice((0.0, 5.0))
                )
            except (Refused, TooMany) as error:
                self.note("reserve", "fail", started, key=key, code=error.code)
                time.sleep(0.05)
                return None
            except PoolError as error:
                self.note("reserve", "info", started, key=key, code=error.code)
                time.sleep(0.1)
                continue
            self._told("reserve", started, key, lease)
            return self._wait(key, lease) if lease.queued else lease
        return None

    def _wait(self, key: str, lease: Lease) -> Lease | None:
        end = time.monotonic() + 8.0
        while lease.queued and time.monotonic() < end:
            started = time.time()
            try:
                lease = self._pool.get(lease.id, wait=1.0)
            except UnknownLease:
                self.note("get", "fail", started, key=key, lease=lease.id, code="unknown_lease")
                return None
            except PoolError:
                time.sleep(0.1)
                continue
            self._told("get", started, key, lease)
        if lease.in_force:
            return lease
        self._release(lease)
        return None

    def _told(self, what: str, started: float, key: str, lease: Lease) -> None:
        self.note(
            what, "ok", started, key=key, lease=lease.id, state=lease.state, epoch=lease.epoch,
            expires_in=lease.expires_in,
        )  # fmt: skip

    def _use(self, lease: Lease) -> bool:
        """Hold a lane open and renew; whether the lease is to be given back then."""
        end = time.monotonic() + self._random.uniform(0.1, 3.0)
        lane: socket.socket | None = None
        renewed = time.monotonic()
        while time.monotonic() < end:
            lane = lane or self._connect(lease)
            if time.monotonic() - renewed > RENEW_EVERY_S:
                renewed = time.monotonic()
                if not self._renew(lease):
                    return False
            if lane is not None and _closed(lane):
                lane.close()
                lane = None
            time.sleep(0.03)
        if lane is not None:
            lane.close()
        return self._random.random() > ABANDONS

    def _connect(self, lease: Lease) -> socket.socket | None:
        host, port = (lease.address or "").removeprefix("tcp://").rsplit(":", 1)
        hello = Hello(0, 0, os.urandom(16), lease.epoch, lease.id, bytes.fromhex(lease.secret or ""))
        lane = socket.socket()
        lane.settimeout(1.0)
        try:
            lane.connect((host, int(port)))
            lane.sendall(hello.pack())
            status, _ = struct.unpack("<II", _exactly(lane, 8))
            if status == 0 and _exactly(lane, 1) == b"w":
                lane.setblocking(False)
                return lane
        except OSError:
            pass
        lane.close()
        return None

    def _renew(self, lease: Lease) -> bool:
        """Whether the lease is still to be used."""
        started = time.time()
        try:
            renewal = self._pool.renew([(lease.id, lease.epoch)])
        except PoolError as error:
            self.note("renew", "info", started, lease=lease.id, code=error.code)
            return True
        if lease.id in renewal.left:
            self.note("renew", "ok", started, lease=lease.id, expires_in=renewal.left[lease.id])
            return True
        lost = renewal.lost[0]
        self.note("renew", "fail", started, lease=lease.id, state=lost.state, code=lost.reason)
        return False

    def _release(self, lease: Lease) -> None:
        for _ in range(20):
            started = time.time()
            try:
                after = self._pool.release(lease.id, lease.holder)
            except PoolUnavailable:
                self.note("release", "info", started, lease=lease.id)
                time.sleep(0.1)
                continue
            except PoolError as error:
                self.note("release", "fail", started, lease=lease.id, code=error.code)
                time.sleep(0.1)
                continue
            self.note("release", "ok", started, lease=lease.id, state=after.state)
            return


def _closed(lane: socket.socket) -> bool:
    try:
        return lane.recv(64) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _exactly(lane: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = lane.recv(count - len(data))
        if not part:
            raise ConnectionError
        data += part
    return data


def main() -> None:
    urls, token, history, seed = sys.argv[1:]
    client = Client(urls, token, Path(history), int(seed))
    signal.signal(signal.SIGTERM, lambda *_: setattr(client, "stopping", True))
    client.run()


if __name__ == "__main__":
    main()
