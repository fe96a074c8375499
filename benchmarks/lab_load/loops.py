"""Reads what ``loop_watch`` wrote: how long each kind of process blocked its loop, and whose doing it was."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.lab_load.loop_watch import OURS, REPOSITORY

TOLD_FRAMES = 4


@dataclass(frozen=True)
class Block:
    """One callback that was long, in seconds; ``own`` leaves out what the thread waited for a processor.

    ``ours``: the part of ``own`` in which a function of this project was on the stack, be it that it called
    something else. ``unseen``: the part before the first look and after the last.
    """

    name: str
    wall: float
    own: float
    cpu: float
    collecting: float
    ours: float
    unseen: float
    where: str

    @classmethod
    def of(cls, line: dict[str, Any]) -> Block:
        where = next((told(frames) for frames, _ in line["stacks"] if frames), "")
        return cls(
            line["block"],
            line["wall"],
            line["own"],
            line["cpu"],
            line["gc"],
            line["ours"],
            line["own"] - line["seen"],
            where,
        )


@dataclass
class Loops:
    """The loops of one kind of process together."""

    processes: int = 0
    callbacks: int = 0
    busy: float = 0.0
    lived: float = 0.0
    behind: float = 0.0
    """Seconds in which who asked had to wait for more than a tenth of one."""
    latest: float = 0.0
    blocks: list[Block] = field(default_factory=list)

    def add(self, lines: Iterable[dict[str, Any]]) -> None:
        last: dict[int, dict[str, Any]] = {}
        for line in lines:
            if "block" in line:
                self.blocks.append(Block.of(line))
            else:
                last[line["pid"]] = line
        for line in last.values():
            self.processes += 1
            self.callbacks += line["callbacks"]
            self.busy += line["busy"]
            self.lived += line["lived"]
            self.behind += line["behind"]
            self.latest = max(self.latest, line["latest"])

    @property
    def longest(self) -> float:
        return max((block.own for block in self.blocks), default=0.0)

    @property
    def ours(self) -> float:
        return max((block.ours for block in self.blocks), default=0.0)

    @property
    def unseen(self) -> float:
        return max((block.unseen for block in self.blocks), default=0.0)

    @property
    def held_up(self) -> float:
        """The part of the time in which who asked had to wait for more than a tenth of a second."""
        return self.behind / self.lived if self.lived else 0.0


def read(folder: Path) -> dict[str, Loops]:
    """By kind of process; the kind is the file's name up to a hyphen."""
    found: dict[str, Loops] = defaultdict(Loops)
    for path in sorted(folder.glob("*.jsonl")):
        lines = path.read_text().splitlines(keepends=True)
        # A process that was killed may have left half a line.
        found[path.stem.partition("-")[0]].add(json.loads(line) for line in lines if line.endswith("\n"))
    return dict(found)


def told(frames: Sequence[str]) -> str:
    """A stack in a line: the last function of ours and the last few of all."""
    mine = [frame for frame in frames if frame.startswith(OURS)][-1:]
    rest = [frame for frame in frames[-TOLD_FRAMES:] if frame not in mine]
    return " > ".join(short(frame) for frame in (*mine, *rest))


def short(frame: str) -> str:
    place, _, function = frame.rpartition(" ")
    place = re.sub(r"^.*/(site-packages|lib/python3\.\d+)/", "", place.removeprefix(f"{REPOSITORY}/"))
    return f"{place} {function}"
