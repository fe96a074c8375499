"""Placement on a production trace with fractional GPU requests, against the published policies.

    python -m benchmarks.placement [--policy NAME] [--seeds N] [--json -]
    python -m benchmarks.placement --departures

Replays each trace as its README tells, with seeds 42, 43, ..., and reads how much of the GPUs is allocated
when 80, 95, 100 and 130 per cent of the capacity have been asked for. ``ours`` is the product's own index and
policy; ``random``, ``best_fit`` and ``fgd`` are the paper's. Times of decisions are processor time of the
deciding thread, with taking what was decided.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

from benchmarks.figures import Figure, add_options, emit
from benchmarks.openb.departures import Outcome, outcome
from benchmarks.openb.replay import DEMANDS, POLICIES, PUBLISHED, Replay, replay
from benchmarks.openb.trace import read_nodes, read_pods, read_stays

DATA = Path(__file__).parent / "data" / "openb"
FIRST_SEED = 42
AIM_GAIN = 0.5
AIM_MS = 1.0
Results = dict[tuple[str, str], list[Replay]]
T = TypeVar("T")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=Path, default=DATA / "nodes.csv", help="the servers, as CSV")
    parser.add_argument(
        "--pods", type=Path, nargs="+", default=sorted(DATA.glob("pods_*.csv")), help="the traces, as CSV"
    )
    parser.add_argument(
        "--policy", choices=sorted(POLICIES), action="append", help="again for more; best_fit, fgd and ours"
    )
    parser.add_argument("--seeds", type=int, default=10, help="replays of each trace (10)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--departures", action="store_true", help="with departures and a queue")
    parser.add_argument("--every", type=int, help="keep every so many servers (1; departures: 20)")
    parser.add_argument("--load", type=float, default=0.95, help="departures: demand by capacity (0.95)")
    add_options(parser)
    arguments = parser.parse_args()
    if arguments.smallest:
        arguments.pods, arguments.policy, arguments.seeds = arguments.pods[:1], ["ours"], 1
    if arguments.every is None:
        arguments.every = 100 if arguments.smallest else 20 if arguments.departures else 1
    return arguments


def trace_name(path: Path) -> str:
    return path.stem.removeprefix("pods_")


def published(path: Path = DATA / "published_allocation.csv") -> dict[tuple[str, str, int], float]:
    """The authors' means, in per cent, by trace, policy and per cent of demand."""
    with path.open(newline="") as file:
        return {
            (row["trace"], row["policy"], int(row["demand_percent"])): float(
                row["gpu_allocation_percent_mean"]
            )
            for row in csv.DictReader(file)
        }


def _replay(task: tuple[Path, Path, str, int, int]) -> Replay:
    nodes, pods, policy, seed, every = task
    return replay(read_nodes(nodes)[::every], read_pods(pods), policy, seed)


def _outcome(task: tuple[Path, Path, str, int, int, float]) -> Outcome:
    nodes, pods, policy, seed, every, load = task
    return outcome(read_nodes(nodes), read_stays(pods), policy, seed, every=every, load=load)


def allocation_figures(results: Results) -> list[Figure]:
    """What was allocated, beside the published means; ours should be below them on no trace."""
    known = published()
    figures = []
    for (trace, policy), replays in results.items():
        for percent in DEMANDS:
            value = statistics.mean(replay.allocated[percent] for replay in replays)
            to_beat = known.get((trace, PUBLISHED["fgd"], percent))
            aim = to_beat if policy == "ours" and percent == 100 else None
            figures.append(Figure(f"{trace}: {policy} at {percent} %", value, "% of GPUs", "higher", aim))
            theirs = known.get((trace, PUBLISHED.get(policy, ""), percent))
            if theirs is not None:
                name = f"{trace}: {policy} at {percent} %, published"
                figures.append(Figure(name, theirs, "% of GPUs", "higher"))
    return figures


def gain_figures(results: Results) -> list[Figure]:
    """Ours above the published FGD, on average over the traces at 100 % demand."""
    known = published()
    gains = [
        statistics.mean(replay.allocated[100] for replay in replays) - known[trace, PUBLISHED["fgd"], 100]
        for (trace, policy), replays in results.items()
        if policy == "ours" and (trace, PUBLISHED["fgd"], 100) in known
    ]
    if not gains:
        return []
    return [
        Figure(
            "ours above published FGD at 100 %, mean", statistics.mean(gains), "points", "higher", AIM_GAIN
        ),
        Figure("ours above published FGD at 100 %, least", min(gains), "points", "higher", 0.0),
    ]


def decision_figures(results: Results) -> list[Figure]:
    figures = []
    for policy in dict.fromkeys(policy for _, policy in results):
        replays = [one for (_, name), many in results.items() if name == policy for one in many]
        seconds = sorted(second for one in replays for second in one.seconds)
        aim = AIM_MS if policy == "ours" else None
        mean, p99 = statistics.fmean(seconds) * 1000, seconds[int(0.99 * len(seconds))] * 1000
        figures.append(Figure(f"{policy}: a decision, mean", mean, "ms", "lower", aim))
        figures.append(Figure(f"{policy}: a decision, p99", p99, "ms", "lower"))
        refused: Counter[str] = sum((one.refused for one in replays), Counter())
        asked: Counter[str] = sum((one.asked for one in replays), Counter())
        for kind in sorted(asked):
            share = 100 * refused[kind] / asked[kind]
            figures.append(Figure(f"{policy}: refused until 100 %, {kind}", share, "% of pods", "lower"))
    return figures


def departure_figures(outcomes: dict[tuple[str, str], list[Outcome]]) -> list[Figure]:
    figures = []
    for (trace, policy), many in outcomes.items():
        waits = sorted(wait for one in many for wait in one.waits)

        def waited(share: float, waits: list[int] = waits) -> float:
            return waits[min(len(waits) - 1, int(share * len(waits)))]

        name = f"{trace}: {policy}"
        allocated = statistics.mean(one.allocated for one in many)
        figures += [
            Figure(f"{name}, allocated over time", allocated, "% of GPUs", "higher"),
            Figure(f"{name}, wait, mean", statistics.fmean(waits), "s", "lower"),
            Figure(f"{name}, wait, p50", waited(0.5), "s", "lower"),
            Figure(f"{name}, wait, p90", waited(0.9), "s", "lower"),
            Figure(f"{name}, wait, p99", waited(0.99), "s", "lower"),
            Figure(f"{name}, never started", sum(one.unstarted for one in many), "pods", "lower"),
        ]
    return figures


def _policies(arguments: argparse.Namespace) -> list[str]:
    return arguments.policy or ["best_fit", "fgd", "ours"]


def _grouped(keys: Sequence[tuple[str, str]], values: Iterable[T]) -> dict[tuple[str, str], list[T]]:
    groups: dict[tuple[str, str], list[T]] = {}
    for key, value in zip(keys, values, strict=True):
        groups.setdefault(key, []).append(value)
    return groups


def main() -> None:
    arguments = _arguments()
    seeds = range(FIRST_SEED, FIRST_SEED + arguments.seeds)
    wanted = [(pods, policy) for pods in arguments.pods for policy in _policies(arguments)]
    keys = [(trace_name(pods), policy) for pods, policy in wanted for _ in seeds]
    with ProcessPoolExecutor(arguments.jobs) as pool:
        if arguments.departures:
            tasks = [
                (arguments.nodes, pods, policy, seed, arguments.every, arguments.load)
                for pods, policy in wanted
                for seed in seeds
            ]
            figures = departure_figures(_grouped(keys, pool.map(_outcome, tasks)))
        else:
            replays = [
                (arguments.nodes, pods, policy, seed, arguments.every)
                for pods, policy in wanted
                for seed in seeds
            ]
            results = _grouped(keys, pool.map(_replay, replays))
            figures = allocation_figures(results) + gain_figures(results) + decision_figures(results)
    emit(figures, arguments.json)


if __name__ == "__main__":
    main()
