"""The attacks. Each is a coroutine that goes on until it is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

from benchmarks.siege.connections import Address, Opens
from benchmarks.siege.plan import Strength
from benchmarks.siege.students import KERNEL
from gpu_kernels.client import Lease
from gpu_kernels.remoting.environment import client_environment
from gpu_kernels.remoting.hello import Hello

FLOODING = 48
"""Connections that a flood goes over."""
IDLE_AT_THE_DATA_PORT = 300
DEEP = 200_000
SERVERS_TOKENS_BEGIN = "gpu-agent-"


class Attacker:
    """What the attacker has: a token of the course, mostly a lease, and the addresses that students have."""

    def __init__(self, url: str, token: str, strength: Strength, opens: Opens, tally: Counter[str]) -> None:
        self.url, self.token, self.strength, self.opens, self.tally = url, token, strength, opens, tally
        self._lease: Lease | None = None
        self._has_one = asyncio.Event()

    def has(self, lease: Lease) -> None:
        """This is the lease from now on."""
        self._lease = lease
        self._has_one.set()

    async def leased(self) -> Lease:
        """The newest lease, which may be over; waits for the first."""
        await self._has_one.wait()
        return self.lease

    @property
    def lease(self) -> Lease:
        assert self._lease is not None
        return self._lease

    @property
    def controller(self) -> Address:
        return Address.of(self.url, self.opens, self.tally)

    async def data_port(self) -> Address:
        address = (await self.leased()).address
        assert address is not None
        return Address.of(address, self.opens, self.tally)

    def request(self, method: str, path: str, *headers: str, token: str = "", body: bytes = b"") -> bytes:
        lines = [f"{method} /api/v1{path} HTTP/1.1", "Host: pool", *headers]
        if token:
            lines.append(f"Authorization: token {token}")
        return "\r\n".join([*lines, "", ""]).encode() + body

    def hello(self, *, secret: bytes | None = None, lease_id: str | None = None) -> bytes:
        """A Hello of a new session; by default the right one."""
        own = bytes.fromhex(self.lease.secret or "")
        hello = Hello(0, 0, os.urandom(16), self.lease.epoch, lease_id or self.lease.id, secret or own)
        return hello.pack()


async def idle(me: Attacker) -> None:
    """Connections on which nothing is said."""
    await me.controller.hold("idle", me.strength.idle_connections, bytes)


async def half(me: Attacker) -> None:
    """Headers and bodies of which a byte comes now and then; some with the attacker's own token."""
    long_body = "Content-Length: 1000000"
    beginnings = [
        b"GET /api/v1/leases HTTP/1.1\r\nHost: pool\r\nX-Long: ",
        me.request("POST", "/leases", long_body, body=b"{"),
        me.request("POST", "/leases", long_body, token=me.token, body=b"{"),
        me.request("POST", "/leases", "Transfer-Encoding: chunked", token=me.token, body=b"fffff\r\n{"),
    ]
    part = -(-me.strength.half_requests // len(beginnings))
    async with asyncio.TaskGroup() as group:
        for beginning in beginnings:

            def say(beginning: bytes = beginning) -> bytes:
                return beginning

            group.create_task(me.controller.hold("half", part, say, drip=b" "))


async def members(me: Attacker) -> None:
    """Connections that the attacker's own token opens, each kept alive by a request now and then."""
    request = me.request("GET", "/leases", token=me.token)
    await me.controller.hold("members", me.strength.own_connections, lambda: request, drip=request)


async def tokens(me: Attacker) -> None:
    """Each request with another token that nobody has, every other one of them as a GPU server's begins."""
    prefixes = itertools.cycle(("", SERVERS_TOKENS_BEGIN))

    def unknown() -> bytes:
        return me.request("GET", "/leases", token=next(prefixes) + secrets.token_hex(32))

    await _flood(me, "tokens", me.controller, unknown)


async def secrets_(me: Attacker) -> None:
    """The data port: wrong secrets, leases that are not there, noise, and silence."""
    turns = itertools.cycle(
        (
            lambda: me.hello(secret=os.urandom(32)),
            lambda: me.hello(lease_id=secrets.token_hex(10)),
            lambda: os.urandom(128),
            lambda: me.hello()[:64],
        )
    )
    data_port = await me.data_port()
    async with asyncio.TaskGroup() as group:
        group.create_task(_flood(me, "secrets", data_port, lambda: next(turns)(), once=True))
        group.create_task(data_port.hold("secrets", IDLE_AT_THE_DATA_PORT, bytes))


async def _flood(
    me: Attacker, attack: str, address: Address, request: Callable[[], bytes], *, once: bool = False
) -> None:
    pace = Opens(me.strength.floods_a_second)

    async def one() -> None:
        while True:
            with contextlib.suppress(OSError, TimeoutError), await address.connect(attack) as connected:
                await pace.turn()
                while await address.ask(attack, connected, request()) and not once:
                    await pace.turn()

    async with asyncio.TaskGroup() as group:
        for _ in range(FLOODING):
            group.create_task(one())


async def readers(me: Attacker) -> None:
    """Who asks for much and reads nothing: streams of events, and large answers behind each other."""
    stream = me.request("GET", "/events?topics=leases", token=me.token)
    large = b"".join(
        me.request("GET", path, token=me.token) for path in ("/openapi.json", "/leases?ended=1", "/pool")
    )
    part = -(-me.strength.deaf_readers // 2)
    async with asyncio.TaskGroup() as group:
        group.create_task(me.controller.hold("readers", part, lambda: stream, deaf=True))
        group.create_task(me.controller.hold("readers", part, lambda: large * 100, deaf=True))


async def lanes(me: Attacker) -> None:
    """Connections with the right secret on which no call of CUDA comes, each a session of its own."""
    await (await me.data_port()).hold("lanes", me.strength.idle_lanes, me.hello)


async def loads(me: Attacker) -> None:
    """Programs of one lease that load large PTX at the same time."""
    async with asyncio.TaskGroup() as group:
        for _ in range(me.strength.loaders):
            group.create_task(_program(me, "loads", "load", str(me.strength.load_mib)))


async def bombs(me: Attacker) -> None:
    """Small things that mean much: PTX, and bodies of requests."""
    turns = _big_requests(me)

    async def throw() -> None:
        while True:
            with (
                contextlib.suppress(OSError, TimeoutError),
                await me.controller.connect("bombs") as connected,
            ):
                await me.controller.ask("bombs", connected, next(turns))
            await asyncio.sleep(0.2)

    async with asyncio.TaskGroup() as group:
        group.create_task(_program(me, "bombs", "bomb"))
        for _ in range(4):
            group.create_task(throw())


def _big_requests(me: Attacker) -> Iterator[bytes]:
    """Bodies that are read whole before they can be refused, one larger than any may be, and headers."""
    for turn in itertools.count():
        size = me.strength.body_mib << 20
        body = (
            b"[" * DEEP + b"]" * DEEP,
            b'{"leases":' + b'[{"id":' * DEEP,
            b'{"size": ' + b"9" * 500_000 + b"}",
            b" " * size,
            b" " * (size * 2),
        )[turn % 5]
        length = f"Content-Length: {len(body)}"
        for path in ("/leases", "/leases/renew"):
            for token in (me.token, "nobody"):
                yield me.request("POST", path, length, token=token, body=body)
        yield me.request("GET", "/leases", *(f"X-{n}: {'y' * 1000}" for n in range(200)))


async def _program(me: Attacker, attack: str, *what: str) -> None:
    """A program on the attacker's slice, started again when it has ended, killed with this attack."""
    while True:
        environment = client_environment(await me.leased(), os.environ)
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(KERNEL), *what),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        me.tally[f"{attack}: programs"] += 1
        assert program.stdout is not None
        try:
            async for line in program.stdout:
                what_came = "loaded" if line.split()[1] == b"loaded" else "refused"
                me.tally[f"{attack}: {what_came}"] += 1
            await program.wait()
        finally:
            if program.returncode is None:
                program.kill()
                await program.wait()
        await asyncio.sleep(1.0)


ATTACK: Mapping[str, Callable[[Attacker], Coroutine[Any, Any, None]]] = {
    "idle": idle,
    "half": half,
    "members": members,
    "tokens": tokens,
    "secrets": secrets_,
    "readers": readers,
    "lanes": lanes,
    "loads": loads,
    "bombs": bombs,
}
