"""The trace's files, and the order in which its pods arrive."""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

WHOLE = 1000


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    cpu: int
    memory: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class Pod:
    """What a pod asks for. ``milli`` of each of ``gpus``; ``models`` that are allowed, all where empty."""

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: frozenset[str]

    @property
    def demand(self) -> int:
        return self.gpus * self.milli

    @property
    def kind(self) -> str:
        if self.gpus == 0:
            return "CPU only"
        if self.milli < WHOLE:
            return "a part of a GPU"
        return "one GPU" if self.gpus == 1 else "several GPUs"


@dataclass(frozen=True, slots=True)
class Stay:
    """A pod with the seconds at which it came and for which it ran."""

    pod: Pod
    came: int
    ran: int


def read_nodes(path: Path) -> list[Node]:
    """The servers that have GPUs."""
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        nodes = [
            Node(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
            for row in rows
        ]
    return [node for node in nodes if node.gpus > 0]


def read_pods(path: Path) -> list[Pod]:
    with path.open(newline="") as file:
        return [_pod(row) for row in csv.DictReader(file)]


def read_stays(path: Path) -> list[Stay]:
    """The pods with their times; empty where the file has none."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get("creation_time") and row.get("deletion_time")]
    stays = []
    for row in rows:
        came = int(row["creation_time"])
        started = int(row["scheduled_time"] or came)
        stays.append(Stay(_pod(row), came, max(1, int(row["deletion_time"]) - started)))
    return stays


def _pod(row: dict[str, str]) -> Pod:
    models = frozenset(model for model in (row.get("gpu_spec") or "").split("|") if model)
    return Pod(
        int(row["cpu_milli"]), int(row["memory_mib"]), int(row["num_gpu"]), int(row["gpu_milli"]), models
    )


def capacity(nodes: Sequence[Node]) -> int:
    """In thousandths of a GPU."""
    return sum(node.gpus for node in nodes) * WHOLE


def arrivals(pods: Sequence[Pod], demand: float, seed: int) -> list[Pod]:
    """The pods shuffled, then more drawn with replacement until they ask for ``demand`` thousandths."""
    source = random.Random(seed)
    order = list(pods)
    source.shuffle(order)
    asked = sum(pod.demand for pod in order)
    while asked < demand:
        pod = source.choice(pods)
        order.append(pod)
        asked += pod.demand
    return order


def superposed(stays: Sequence[Stay], demand: float, seed: int) -> tuple[list[Stay], int]:
    """Copies of the trace, each turned by a random time, until on average they ask for ``demand``
    thousandths at once; and the seconds that they take.

    The first hundredth of the arrivals is spread over months and is left out.
    """
    source = random.Random(seed)
    came = sorted(stay.came for stay in stays)
    start, end = came[len(came) // 100], came[-1]
    window = end - start
    within = [stay for stay in stays if stay.came >= start]
    wanted = demand * window
    order: list[Stay] = []
    while wanted > 0:
        turn = source.randrange(window)
        copy = list(within)
        source.shuffle(copy)
        for stay in copy:
            if wanted <= 0:
                break
            order.append(Stay(stay.pod, (stay.came - start + turn) % window, stay.ran))
            wanted -= stay.pod.demand * min(stay.ran, window)
    order.sort(key=lambda stay: stay.came)
    return order, window
