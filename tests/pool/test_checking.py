"""The check of a request, made of the type that client and ledger have of it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from msgspec import Meta, to_builtins
from msgspec.json import encode

from gpu_kernels.errors import InvalidRequest
from gpu_kernels.pool.service.parsing import read_body
from gpu_kernels.resources.agents import AgentReport, LiveLease, OfferedGpu, OutsideMemory, Registration
from gpu_kernels.resources.base import Body, Resource, one_of

pytestmark = pytest.mark.quick

GPU = OfferedGpu("GPU-1", 0, "V100", "software", "Software GPU", 33000, 32768)
SAID = [
    Registration("1", "tcp://gpu1:7000", "1", (GPU,), 30.0),
    Registration("1", "unix:///run/gpu", "1", ()),
    AgentReport(boot_id="1", target_seq=0, leases=()),
    AgentReport(
        boot_id="1", target_seq=7, incarnation="one", full=False, epoch=3, wait=2.5,
        leases=(LiveLease("f00", 3, "draining", 10, 20, 1, 5), LiveLease("f01", 4)),
        outside=(OutsideMemory("GPU-1", 74),),
    ),
]  # fmt: skip


class Part(Resource, frozen=True):
    share: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    word: Annotated[str, one_of(("one", "two"))] = "one"


class Bounded(Body, frozen=True):
    parts: Annotated[tuple[Part, ...], Meta(min_length=1, max_length=2)] = (Part(),)
    even: Annotated[int, Meta(multiple_of=2)] = 0


@pytest.mark.parametrize("said", SAID)
def test_what_an_agent_says_is_read_as_it_was_made(said: Body) -> None:
    assert read_body(type(said), encode(said)) == said


def test_what_an_older_agent_leaves_out_has_a_default() -> None:
    told = to_builtins(SAID[2])
    least = {name: told[name] for name in ("boot_id", "target_seq", "leases")}
    assert read_body(AgentReport, json.dumps(least).encode()) == SAID[2]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"parts": []}, "'parts' in the body must have at least 1 entries, not 0"),
        ({"parts": [{}] * 3}, "'parts' in the body must have at most 2 entries, not 3"),
        ({"parts": [{"share": 0}]}, "'share' in entry 0 of 'parts' must be more than 0, not 0"),
        ({"parts": [{}, {"share": 1.0}]}, "'share' in entry 1 of 'parts' must be less than 1, not 1.0"),
        ({"parts": [{"word": "three"}]}, "'word' in entry 0 of 'parts' must be 'one' or 'two', not 'three'"),
        ({"parts": [{"colour": 1}]}, "Unknown in entry 0 of 'parts': 'colour'; known are share, word."),
        ({"even": 3}, "'even' in the body is wrong: input should be a multiple of 2"),
        ({"colour": 1}, "Unknown in the body: 'colour'; known are even, parts."),
    ],
)
def test_every_bound_of_the_type_is_held_to(body: Any, text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_body(Bounded, json.dumps(body).encode())
    assert text in refused.value.message


def test_a_type_that_cannot_be_checked_is_no_body() -> None:
    class Loose(Body, frozen=True):
        anything: dict[str, int]

    with pytest.raises(TypeError, match="a body cannot hold DictType"):
        read_body(Loose, b"{}")
