"""The checker of histories finds what it is there to find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.kills.checker import Checker, Use
from gpu_kernels.pool.ledger.commands.termination import NOT_RENEWED
from gpu_kernels.pool.ledger.state.rows import Event, Gpu, Lease, Slice
from gpu_kernels.units import parse_size

pytestmark = pytest.mark.quick

T = 1_800_000_000.0
SIZE = parse_size("0.5 V100")
GPU = Gpu(
    id=1, agent_name="one", uuid="GPU-1", index=0, gpu_class="V100", device="software", name="Software GPU",
    total_mib=1000, offered=True, offered_class="V100", offered_mib=1000, allocatable_mib=1000,
)  # fmt: skip


def lease(name: str, epoch: int, **fields: Any) -> Lease:
    made = Lease(
        id=name, state="released", user="ada", course="ml101", size=SIZE, key=name, live_key=None,
        body_hash="", server="", path=name, place=None, holder="k", turn=0, created_at=0, asked_at=0,
        give_up_at=0, agent_name="one", epoch=epoch,
    )  # fmt: skip
    return replace(made, **fields)


def part(name: str, start: float, end: float | None, mib: int = 600) -> Slice:
    return Slice(
        lease_id=name, gpu_id=1, gpu_uuid="GPU-1", gpu_class="V100", user="ada", course="ml101", mib=mib,
        thousandths=500, started_at=round((T + start) * 1000),
        ended_at=None if end is None else round((T + end) * 1000),
    )  # fmt: skip


def use(name: str, epoch: int, start: float, last: float, mib: int = 600) -> Use:
    return Use(name, epoch, 100 + epoch, T + start, T + last, (("GPU-1", mib),))


def said(what: str, outcome: str, start: float, **facts: Any) -> dict[str, Any]:
    return {"what": what, "outcome": outcome, "start": T + start, "end": T + start + 0.1, **facts}


GOOD_ROWS = [GPU, lease("a", 1), lease("b", 2), part("a", 0, 10), part("b", 10, 20)]
GOOD_USE = [use("a", 1, 1, 9), use("b", 2, 11, 19)]
GOOD_WORDS = [
    said("reserve", "ok", 0, key="a", lease="a", epoch=1, expires_in=3.0),
    said("reserve", "ok", 10, key="b", lease="b", epoch=2, expires_in=3.0),
    said("release", "ok", 9.5, lease="a"),
]


def test_a_history_in_which_all_is_well() -> None:
    assert Checker(GOOD_ROWS, GOOD_USE, GOOD_WORDS).check() == []


expired = Event(
    id=1, at=round((T + 2) * 1000), actor="clock", kind="expired", subject="a", detail={"reason": NOT_RENEWED}
)


@pytest.mark.parametrize(
    ("rows", "used", "words", "found"),
    [
        ([], [use("b", 2, 8, 19)], [], "had 1200 MiB in use"),
        ([], [use("a", 1, 5, 8)], [], "two processes served one lease"),
        ([], [use("a", 1, 9.5, 10.5)], [], "after it was free"),
        ([], [use("b", 2, 9.2, 9.4)], [], "before it was granted"),
        ([], [use("a", 1, 9.1, 9.2, mib=700)], [], "otherwise than it was granted"),
        ([], [use("c", 3, 30, 31)], [], "of which its lease had nothing"),
        ([lease("c", 2)], [], [], "have epoch 2 of one"),
        ([lease("c", 3, state="active")], [], [], "leaked"),
        ([lease("c", 3), part("c", 1, None)], [], [], "was never closed"),
        ([replace(GPU, uuid="GPU-2", used_mib=5)], [], [], "still counts 5 MiB"),
        ([expired], [], [], "expired 1.000 s before"),
        ([], [], [said("reserve", "ok", 30, key="c", lease="c", epoch=3)], "does not know it"),
        ([], [], [said("get", "ok", 30, key="a", lease="a", epoch=3)], "an epoch that is not the lease's"),
        ([], [], [said("reserve", "ok", 5, key="a", lease="b", epoch=2)], "named a and then b"),
        ([lease("c", 3, state="active")], [], [said("release", "ok", 5, lease="c")], "was released, and is"),
    ],
)
def test_what_is_wrong_is_found(rows: list[Any], used: list[Use], words: list[Any], found: str) -> None:
    violations = Checker([*GOOD_ROWS, *rows], [*GOOD_USE, *used], [*GOOD_WORDS, *words]).check()
    assert any(found in text for text in violations), violations
