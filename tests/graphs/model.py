"""Graphs of simple operations on numbered buffers, what they must do, and which operation follows which."""

from __future__ import annotations

from dataclasses import dataclass

BUFFERS = 4  # on the device
HOSTS = 2  # in the program's memory
MASK = 2**32 - 1


@dataclass(frozen=True)
class Op:
    """``kind``: fill, set, mix, copy (device to device), in (from the host), out (to the host)."""

    kind: str
    to: int
    source: int = 0
    value: int = 0

    @property
    def writes(self) -> str:
        return f"h{self.to}" if self.kind == "out" else f"d{self.to}"

    @property
    def reads(self) -> set[str]:
        if self.kind in ("mix", "copy", "out"):
            own = {f"d{self.to}"} if self.kind == "mix" else set()
            return own | {f"d{self.source}"}
        return {f"h{self.source}"} if self.kind == "in" else set()


def must_follow(ops: list[Op], index: int) -> list[int]:
    """Operations before this one that touch what it touches, and one of the two writes."""
    op = ops[index]
    return [
        i
        for i, other in enumerate(ops[:index])
        if other.writes in {op.writes, *op.reads} or op.writes in other.reads
    ]


def run(ops: list[Op], device: list[list[int]], host: list[list[int]]) -> None:
    for op in ops:
        if op.kind == "fill":
            device[op.to] = [(op.value + i) & MASK for i in range(len(device[op.to]))]
        elif op.kind == "set":
            device[op.to] = [op.value] * len(device[op.to])
        elif op.kind == "mix":
            pairs = zip(device[op.to], device[op.source], strict=True)
            device[op.to] = [(3 * a + b) & MASK for a, b in pairs]
        elif op.kind == "copy":
            device[op.to] = list(device[op.source])
        elif op.kind == "in":
            device[op.to] = list(host[op.source])
        else:
            host[op.to] = list(device[op.source])
