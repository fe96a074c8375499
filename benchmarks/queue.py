"""What a decision of the queue costs, with and without others who wait: the policy alone, no store.

Pools of 32 and of 1,600 GPUs, each full of tenths; requests of six sizes from 600 users of 20 courses wait.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from time import process_time

from benchmarks.figures import Figure, main, median
from gpu_kernels.pool.policy.agenda_model import Stay
from gpu_kernels.pool.policy.fairness import Shares, Use
from gpu_kernels.pool.policy.forecast import forecast
from gpu_kernels.pool.policy.model import Ask, Gpu
from gpu_kernels.pool.policy.placement import Catalogue, Index
from gpu_kernels.pool.policy.queue import decide
from gpu_kernels.pool.policy.quota import Limits, Tree
from gpu_kernels.pool.policy.scene import Held, Scene
from gpu_kernels.units import parse_size, slice_of

NOW = 1_800_000_000_000
HOUR = 3_600_000
SIZES = tuple(map(parse_size, ("0.1 V100", "0.02 V100", "1 V100", "2 V100", "4096 MiB", "0.5 V100")))
TENTH = slice_of(SIZES[0], 32_768)
REPEATS = 15
WAITING = 1000


def pool(servers: int, *, full: bool, seed: int = 1) -> Scene:
    """A pool of 8 GPUs a server, with 20 courses of 4 faculties."""
    rng = random.Random(seed)
    gpus = [Gpu(s * 8 + i, f"server{s}", i, "V100", 32_768) for s in range(servers) for i in range(8)]
    capacity = 1000 * len(gpus)
    index, tree, shares = Index(gpus, catalogue=Catalogue.on_offer(map(str, SIZES))), Tree(), Shares()
    tree.put_account("university", "institution")
    tree.set_capacity("V100", capacity)
    shares.capacity["V100"] = capacity
    for number in range(24):
        name, kind = (f"f{number}", "faculty") if number < 4 else (f"c{number}", "course")
        parent = "university" if number < 4 else f"f{number % 4}"
        tree.put_account(name, kind, parent)
        shares.put_account(name, None if number < 4 else parent)
        tree.put_quota(name, "V100", Limits(hard_limit=capacity))
    held: list[Held] = []
    for gpu in gpus if full else []:
        for number in range(10):
            course, until = f"c{4 + rng.randrange(20)}", NOW + rng.randrange(12 * HOUR)
            held.append(Held(f"{gpu.id}-{number}", "user", course, "V100", 100, ((gpu.id, TENTH),), until))
            index.put((index.gpu(gpu.id) or gpu).with_part(TENTH))
            tree.add_use(course, "V100", 100)
    stays: dict[int, list[Stay]] = {}
    for lease in held:
        stays.setdefault(lease.parts[0][0], []).append(Stay(TENTH, lease.until))
    return Scene(NOW, index, tree, shares, stays=lambda gpu: stays.get(gpu, ()), held=lambda: held)


def waiting(scene: Scene, number: int, seed: int = 2) -> list[Ask]:
    rng, asks = random.Random(seed), []
    for turn in range(number):
        course, user = f"c{4 + rng.randrange(20)}", f"user{rng.randrange(600)}"
        for owner in scene.shares.owners(course, user):
            scene.shares.put(Use(*owner, "V100", rng.randrange(10**6), NOW - rng.randrange(24 * HOUR)))
        asks.append(
            Ask(f"r{turn}", course, rng.choice(SIZES), (turn, f"r{turn}"), user=user, asked_at=NOW - HOUR)
        )
    return asks


def timed(work: Callable[[], object], repeats: int) -> float:
    """Milliseconds of processor time, the median of some runs after one that does not count."""
    work()
    samples = []
    for _ in range(repeats):
        start = process_time()
        work()
        samples.append(process_time() - start)
    return 1000 * median(samples)


def measure(smallest: bool) -> list[Figure]:
    figures = []
    pools, asking, repeats = ((4, 200), WAITING, REPEATS) if not smallest else ((1,), 10, 1)
    for servers in pools:
        name = f"{8 * servers:,} GPUs"
        empty, full = pool(servers, full=False), pool(servers, full=True)
        one, many = waiting(empty, 1), waiting(full, asking)
        figures += [
            Figure(
                f"a grant, nobody waits, {name}",
                timed(partial(decide, one, empty), repeats),
                "ms",
                "lower",
                1,
            ),
            Figure(
                f"a pass, {asking:,} wait, {name}",
                timed(partial(decide, many, full), repeats),
                "ms",
                "lower",
                40,
            ),
        ]
        decision = decide(many, full)
        by_id = {ask.id: ask for ask in many}
        line = [by_id[ask] for ask in decision.waiting]
        figures.append(
            Figure(
                f"a forecast, {asking:,} wait, {name}",
                timed(partial(forecast, line, full, decision.promises), repeats),
                "ms",
                "lower",
                200,
            )
        )
    return figures


if __name__ == "__main__":
    main(measure, __doc__)
