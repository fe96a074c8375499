"""The attacker: ``python -m benchmarks.siege.attacker``, one process with a student's token.

The plan comes as JSON in the first line of standard input, and what came of each attack is printed as JSON at
the end. It ends by itself when the plan is over, and when its input ends before.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import sys
import time
from collections import Counter
from typing import Any

from benchmarks.siege.attacks import ATTACK, Attacker
from benchmarks.siege.connections import Opens
from benchmarks.siege.plan import Plan, Strength
from gpu_kernels.client import AsyncPoolClient
from gpu_kernels.errors import PoolError

SIZE = "0.02 V100"


async def attack(told: dict[str, Any], tally: Counter[str]) -> None:
    """All phases of the plan, in their time, with a lease from the first to the last."""
    plan = Plan(**told["plan"] | {"strength": Strength(**told["plan"]["strength"])})
    began = told["began"]
    me = Attacker(told["url"], told["token"], plan.strength, Opens(plan.strength.opens_a_second), tally)
    having = asyncio.create_task(have_a_lease(me))
    try:
        for phase in plan.phases():
            await asyncio.sleep(began + phase.start - time.monotonic())
            with contextlib.suppress(TimeoutError):
                async with (
                    asyncio.timeout(began + phase.end - time.monotonic()),
                    asyncio.TaskGroup() as group,
                ):
                    for name in phase.attacks:
                        group.create_task(ATTACK[name](me))
    finally:
        having.cancel()
        await asyncio.gather(having, return_exceptions=True)


async def have_a_lease(me: Attacker) -> None:
    """As every student, and another one when it is lost: what an attack does to its own lease is no end."""
    async with AsyncPoolClient(me.url, me.token) as pool:
        while True:
            with contextlib.suppress(PoolError):
                async with pool.reserve(SIZE, wait=60.0) as leased:
                    me.has(leased.lease)
                    await asyncio.Event().wait()
            me.tally["the attacker: leases lost or refused"] += 1
            await asyncio.sleep(1.0)


async def _until_input_ends() -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


async def main() -> None:
    told = json.loads(sys.stdin.readline())
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    tally: Counter[str] = Counter()
    attacking = asyncio.create_task(attack(told, tally))
    ended = asyncio.create_task(_until_input_ends())
    await asyncio.wait([attacking, ended], return_when=asyncio.FIRST_COMPLETED)
    attacking.cancel()
    ended.cancel()
    await asyncio.wait([attacking, ended])
    if not attacking.cancelled():
        attacking.result()  # raises what went wrong
    print(json.dumps(tally), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
