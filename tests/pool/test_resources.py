"""JSON v1 of the resources: what clients of other versions read, and what they may send or lack."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from gpu_kernels.pool.service.leases import OneLease
from gpu_kernels.pool.service.operations import operation_of
from gpu_kernels.resources.agents import (
    AgentReport,
    AssignedLease,
    Assignment,
    LiveLease,
    MadeAgentToken,
    OfferedGpu,
    OutsideMemory,
    Registration,
)
from gpu_kernels.resources.leases import Lease, LeaseAgent, LeaseSlice, Slot, Use

pytestmark = pytest.mark.quick

SECRET = "5e" * 32
LEASE = Lease(
    id="f00", state="active", epoch=3, user="ada", course="ml101", size="0.02 V100", gpu_class="V100",
    device="software", slot=Slot("", "a.ipynb"), holder="kernel-1",
    slices=(LeaseSlice("GPU-1", 0, 655, 20),), agent=LeaseAgent("gpu1", "tcp://gpu1:7000"), secret=SECRET,
    position=None, expires_in=60.0, ttl=60.0, ends_in=3600.0, class_hour="7", reason=None,
    created_at="2026-11-21T12:49:54.547+00:00", labels={"kernel": "k"}, use=Use(10, 20, 1, 5, 0.5),
)  # fmt: skip
V1 = {
    "id": "f00", "state": "active", "epoch": 3, "user": "ada", "course": "ml101", "size": "0.02 V100",
    "gpu_class": "V100", "device": "software", "slot": {"server": "", "path": "a.ipynb"},
    "holder": "kernel-1", "slices": [{"gpu": "GPU-1", "index": 0, "mib": 655, "thousandths": 20}],
    "agent": {"name": "gpu1", "address": "tcp://gpu1:7000"}, "secret": SECRET, "position": None,
    "starts_in": None, "expires_in": 60.0, "ttl": 60.0, "ends_in": 3600.0, "preempt_in": None,
    "class_hour": "7", "reason": None, "created_at": "2026-11-21T12:49:54.547+00:00", "ended_at": None,
    "labels": {"kernel": "k"},
    "use": {"used_mib": 10, "peak_mib": 20, "sessions": 1, "launches": 5, "idle": 0.5},
}  # fmt: skip
ASSIGNED = AssignedLease("f00", 3, "ab" * 32, 60.0, (LeaseSlice("GPU-1", 0, 655, 20),))


def test_a_lease_is_sent_as_in_the_first_release() -> None:
    assert msgspec.json.encode(LEASE).decode() == json.dumps(V1, separators=(",", ":"))
    assert msgspec.convert(V1, Lease) == LEASE


def test_an_assignment_says_all_or_what_has_changed() -> None:
    assigned = {
        "id": "f00",
        "epoch": 3,
        "secret_sha256": "ab" * 32,
        "expires_in": 60.0,
        "slices": V1["slices"],
    }
    told = {"target_seq": 7, "incarnation": "one", "held": 0.25}
    for assignment, json_v1 in (
        (Assignment(7, (ASSIGNED,), "one", held=0.25), {**told, "leases": [assigned]}),
        (
            Assignment(7, incarnation="one", changes=(ASSIGNED,), lives=(("b", 2, 9.5),), held=0.25),
            {**told, "changes": [assigned], "lives": [["b", 2, 9.5]]},
        ),
    ):
        assert json.loads(msgspec.json.encode(assignment)) == json_v1
        assert msgspec.convert(json_v1, Assignment) == assignment
        assert assignment.told == (ASSIGNED,)


def test_an_agent_registers_and_reports_as_in_the_first_release() -> None:
    gpu = {
        "uuid": "GPU-1", "index": 0, "gpu_class": "V100", "device": "software", "name": "Software GPU",
        "total_mib": 33000, "allocatable_mib": 32768,
    }  # fmt: skip
    registration = {
        "boot_id": "b", "address": "tcp://gpu1:7000", "version": "1", "gpus": [gpu], "fences_after": 30.0,
    }  # fmt: skip
    lease = {
        "id": "f00", "epoch": 3, "state": "active", "used_mib": 10, "peak_mib": 20, "sessions": 1,
        "launches": 5,
    }  # fmt: skip
    report = {
        "boot_id": "b", "target_seq": 7, "incarnation": "one", "full": False, "epoch": 3, "wait": 10.0,
        "leases": [lease], "outside": [{"gpu": "GPU-1", "mib": 74}],
    }  # fmt: skip
    said = (
        Registration("b", "tcp://gpu1:7000", "1", (OfferedGpu(**gpu),), 30.0),
        AgentReport(
            boot_id="b", target_seq=7, incarnation="one", full=False, epoch=3, wait=10.0,
            leases=(LiveLease(**lease),), outside=(OutsideMemory("GPU-1", 74),),
        ),
    )  # fmt: skip
    for told, json_v1 in zip(said, (registration, report), strict=True):
        assert msgspec.json.encode(told).decode() == json.dumps(json_v1, separators=(",", ":"))


@pytest.mark.parametrize("later", ["starts_in", "ends_in", "preempt_in", "class_hour", "ended_at", "use"])
def test_what_an_older_controller_does_not_send_has_a_default(later: str) -> None:
    older = {name: value for name, value in V1.items() if name != later}
    assert getattr(msgspec.convert(older, Lease), later) in (None, Use())


def test_what_a_newer_controller_adds_is_passed_over() -> None:
    newer: dict[str, Any] = {**V1, "mood": "new", "state": "frozen", "slot": {**V1["slot"], "colour": "red"}}  # type: ignore[dict-item]
    assert msgspec.convert(newer, Lease) == msgspec.structs.replace(LEASE, state="frozen")


@pytest.mark.parametrize("wrong", [{"epoch": "3"}, {"slices": [{}]}, {"state": None}, {"id": "a/b"}])
def test_what_is_no_lease_is_not_read_as_one(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**V1, **wrong}, Lease)


def test_no_log_gets_a_secret_by_a_lease_or_a_token() -> None:
    assert SECRET not in f"{LEASE!r} {LEASE} {[LEASE]} {list(LEASE.__rich_repr__())}"
    made = MadeAgentToken("5e5e", "gpu1", "root", "2026-11-21T12:49:54.547+00:00", SECRET)
    assert SECRET not in f"{made!r} {made} {[made]} {list(made.__rich_repr__())}"


@pytest.mark.parametrize("answer", [{**V1, "mood": "new"}, {k: V1[k] for k in V1 if k != "use"}])
def test_the_check_of_answers_finds_a_field_too_many_and_one_too_few(answer: dict[str, Any]) -> None:
    made = operation_of(OneLease, "GET")
    assert made is not None
    made.check_answer(200, msgspec.json.encode(V1))
    with pytest.raises(AssertionError, match="unknown, or left out"):
        made.check_answer(200, msgspec.json.encode(answer))
