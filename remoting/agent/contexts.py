"""What a worker's CUDA context takes of each GPU before its program has asked for anything: measured.

A context costs some hundred MiB on a data-centre GPU, differently on each, and one worker serves each lease.
So it is of the slice: fifty slices of a fiftieth fit a GPU with everything that they take.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpu_kernels.remoting.agent.gpus import Inventory

LONGEST_S = 120.0
"""A driver that has not been used since the machine started takes its time."""
ROOM_MIB = 16
"""A slice must leave its program this much beside the context, to be worth a start."""


class NotMeasured(Exception):
    """The driver did not say what a context takes; the text is for who runs the agent."""


def measured_contexts(program: Path, driver: str, uuids: Sequence[str], env: Mapping[str, str]) -> list[int]:
    """MiB for each of ``uuids``. Runs ``program --measure-context``, which makes two contexts on each GPU;
    what others do there meanwhile is measured along. Raises ``NotMeasured``."""
    command = [str(program), "--measure-context", "--driver", driver, "--uuid", ",".join(uuids)]
    try:
        done = subprocess.run(
            command, env=dict(env), capture_output=True, text=True, timeout=LONGEST_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotMeasured(f"cannot measure a context: {error}") from error
    try:
        sizes = json.loads(done.stdout)["context_mib"]
    except (ValueError, TypeError, KeyError):
        sizes = None
    if (
        done.returncode != 0
        or not isinstance(sizes, list)
        or len(sizes) != len(uuids)
        or not all(type(size) is int and size >= 0 for size in sizes)
    ):
        said = done.stderr.strip().splitlines()[-1:] or [f"it ended with status {done.returncode}"]
        raise NotMeasured(f"cannot measure a context: {said[0]}")
    return sizes


def with_contexts(inventory: Inventory, sizes: Sequence[int]) -> Inventory:
    """The inventory with what a context takes of each GPU."""
    gpus = zip(inventory.gpus, sizes, strict=True)
    return replace(inventory, gpus=tuple(replace(gpu, context_mib=mib) for gpu, mib in gpus))


def smallest_slice_mib(context_mib: int) -> int:
    """Of a GPU where a context takes so much."""
    return context_mib + ROOM_MIB if context_mib else 1
