"""The siege: its plan, what it makes of an outcome, and all of it at its smallest."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from benchmarks.siege.__main__ import run
from benchmarks.siege.kernel import bombs, large
from benchmarks.siege.plan import ATTACKS, Phase, Plan, Strength
from benchmarks.siege.report import Outcome, figures, quantile
from benchmarks.siege.watch import Worker, limits_of


def test_each_attack_comes_alone_and_then_all_come_together():
    phases = Plan(seconds=100.0).phases()
    assert [phase.attacks for phase in phases] == [*((attack,) for attack in ATTACKS), ATTACKS]
    assert all(one.end <= other.start for one, other in itertools.pairwise(phases))
    assert phases[0].start > 0
    assert phases[-1].end < 100.0


def test_one_attack_has_all_the_time():
    assert Plan(seconds=100.0, attacks=["idle"]).phases() == [Phase(("idle",), 5.0, 95.0)]


def test_an_attack_that_there_is_not_is_refused_by_name():
    with pytest.raises(ValueError, match="no attack 'bribes'; there are idle, "):
        Plan(attacks=["bribes"])


def test_large_texts_differ_and_are_as_large_as_asked_for():
    one, other = large(1, 1), large(1, 2)
    assert one != other
    assert abs(len(one) - (1 << 20)) < 1000
    assert len({text[:300] for text in bombs()}) == len(list(bombs()))


@pytest.mark.parametrize(("thousandths", "expected"), [(0, 1), (500, 3), (990, 5), (1000, 5)])
def test_quantile(thousandths, expected):
    assert quantile([5, 1, 3, 2, 4], thousandths) == expected


def test_quantile_of_nothing():
    assert quantile([], 990) == 0.0


def test_the_bounds_of_a_worker_are_those_of_its_command_line():
    assert limits_of(["w", "--memory-mib", "300,20", "--host-memory-mib", "512"]) == (512, 320)


def outcome(*students, in_force) -> Outcome:
    watch = SimpleNamespace(
        silent_for=1.0,
        unanswered=0,
        seconds=10.0,
        busy={"machine": 5.0},
        logged=1 << 20,
        peaks={"controller": 80.0, "agent": 40.0},
        descriptors={"controller": 20, "agent": 20},
        limits={"controller": 1024, "agent": 1024},
        largest=lambda of_students: Worker(900.0, 512, 128) if of_students else None,
    )
    return Outcome(students, in_force, Plan(attacks=["idle"]).phases(), 0.0, watch, Counter(), 5.0)


def student(lease, **other):
    fine = {"epoch": 1, "lost": None, "kernel_ended": None}
    return {"lease": lease, **fine, "renewals": [(100.0, 0.1, "")], "steps": [(1, 0.1)]} | other


def test_leases_that_were_lost_or_given_again_and_kernels_that_ended_are_counted():
    seen = outcome(
        student("a"),
        student("b", lost="it was not renewed"),
        student("c", epoch=2),
        student("d", kernel_ended="the connection was lost", renewals=[(9.0, 10.0, "no answer")]),
        in_force={("a", 1), ("b", 1), ("c", 1), ("d", 1)},
    )
    found = {figure.name: figure for figure in figures(seen)}
    assert found["leases lost"].value == 2
    assert found["kernels whose GPU work ended"].value == 1
    assert found["renewals refused or unanswered"].value == 1
    assert found["renewal, p99"].value == 10.0
    assert found["renewal, p99, idle"].value == 0.1
    missed = [figure.name for figure in found.values() if figure.meets_aim() is False]
    assert missed == [
        "leases lost", "kernels whose GPU work ended", "renewals refused or unanswered", "renewal, p99",
        "memory of a student's worker, peak",
    ]  # fmt: skip


@pytest.mark.native
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_small_siege_loses_nobody_and_each_attack_is_made(tmp_path):
    plan = Plan(seconds=30.0, leases=2, strength=Strength.least())
    # Nothing here is about time, and the machine may be busy: a lease outlives the whole siege.
    outcome = run(replace(plan, lease_ttl=300.0, report_every=1.0), tmp_path)
    assert outcome.lost() == []
    assert outcome.ended_kernels() == []
    found = {figure.name: figure for figure in figures(outcome)}
    assert found["GPU steps"].value > 0
    assert all(found[f"memory of the {name}, peak"].value > 1 for name in ("controller", "agent"))
    assert found["memory of a student's worker, peak"].meets_aim()
    made = {name.partition(": ")[0] for name, count in outcome.tally.items() if count}
    assert made >= set(ATTACKS)
    json.dumps([figure.value for figure in found.values()])
