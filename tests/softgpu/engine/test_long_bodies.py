"""How long a body takes to load grows with its length, whatever its branches are: four times the text does
not take sixteen times as long."""

from __future__ import annotations

import time

import pytest

from tests.softgpu.bench import Device

HEAD = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() {\n.reg .pred p; .reg .u32 a;\n"
BODIES = {
    "all to one label": (lambda n: "@p bra M;\n" * n + "M: ret; }"),
    "all back to one label": (lambda n: "M: add.u32 a,a,1;\n" + "@p bra M;\n" * n + "ret; }"),
    "each to its own label": (
        lambda n: "".join(f"@p bra L{i}; bar.sync 0; L{i}:\n" for i in range(n)) + "ret; }"
    ),
    "one around them all": (lambda n: "@p bra M;\n" + "@p bra N; bar.sync 0;\n" * n + "N: ret; M: ret; }"),
    "each through its own table": (
        lambda n: (
            "".join(f"T{i}: .branchtargets L{i}; @p brx.idx a,T{i}; bar.sync 0; L{i}:\n" for i in range(n))
            + "ret; }"
        )
    ),
    "a ladder up": (
        lambda n: "".join(f"L{i}: add.u32 a,a,1; @p bra L{max(i - 1, 0)};\n" for i in range(n)) + "ret; }"
    ),
}


def seconds(device: Device, body: str) -> float:
    """Of this thread's own time, the least of three."""
    text, took = HEAD + body, []
    for _ in range(3):
        before = time.thread_time()
        device.load(text).unload()
        took.append(time.thread_time() - before)
    return min(took)


@pytest.mark.parametrize("kind", BODIES)
def test_four_times_the_branches_take_about_four_times_as_long(device: Device, kind: str) -> None:
    count = 15_000
    once, four = (seconds(device, BODIES[kind](count * times)) for times in (1, 4))
    assert four < 10 * once + 0.1
