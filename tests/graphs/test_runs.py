"""Graphs run as their edges say, straight and forwarded, and read the program's memory at each launch."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.both_ways import BothWays

from . import model
from .driver import WORDS
from .model import Op

device, host = st.integers(0, model.BUFFERS - 1), st.integers(0, model.HOSTS - 1)
word = st.integers(0, 2**32 - 1)
operation = st.one_of(
    st.builds(Op, st.just("fill"), device, st.just(0), word),
    st.builds(Op, st.just("set"), device, st.just(0), word),
    st.builds(Op, st.just("mix"), device, device),
    st.builds(Op, st.just("copy"), device, device).filter(lambda op: op.to != op.source),
    st.builds(Op, st.just("in"), device, host),
    st.builds(Op, st.just("out"), host, device),
)


def expected(ops: list[Op], inputs: list[list[int]]) -> list[tuple[list[list[int]], list[list[int]]]]:
    device = [[0] * WORDS for _ in range(model.BUFFERS)]
    host = [[0] * WORDS for _ in range(model.HOSTS)]
    seen = []
    for words in inputs:
        host[0] = words
        model.run(ops, device, host)
        seen.append(([list(b) for b in device], [list(b) for b in host]))
    return seen


@settings(max_examples=40, deadline=None)
@given(data=st.data(), ops=st.lists(operation, min_size=1, max_size=14))
def test_any_graph_does_what_its_operations_do_one_after_the_other(
    both: BothWays, data: st.DataObject, ops: list[Op]
) -> None:
    places = data.draw(st.lists(st.integers(0, 2), min_size=len(ops), max_size=len(ops)))
    child = data.draw(st.integers(0, len(ops)))
    inputs = [
        [n * 1000 + i for i in range(WORDS)] for n in data.draw(st.lists(st.integers(0, 9), max_size=3))
    ]
    assert both.run("runs", ops, places, child, inputs) == expected(ops, inputs) * 2


def test_a_captured_step_is_replayed_a_hundred_times_with_changed_inputs(both: BothWays) -> None:
    *on_the_way, (device, host) = both.run("replays", 100)
    ops = [Op("in", 0, 0), Op("mix", 1, 0), Op("set", 2, 0, 5), Op("mix", 2, 1), Op("out", 1, 2)]
    inputs = [[0] * WORDS] + [[i * k for k in range(WORDS)] for i in range(100)]
    steps = expected(ops, inputs)
    assert (device, host) == steps[-1]
    assert on_the_way == [on_host[1] for _, on_host in steps[1:]]


def test_what_a_graph_wrote_is_there_whatever_error_waits_to_be_told(both: BothWays) -> None:
    ops, host = [Op("in", 0, 0), Op("mix", 1, 0), Op("out", 0, 1)], [list(range(WORDS))] + [[0] * WORDS] * 2
    device = [[0] * WORDS for _ in range(model.BUFFERS)]
    for _ in range(2):
        model.run(ops, device, host)
    assert both.run("beside_an_error") == ([0, 0, 1], host[0])


def test_what_a_graph_writes_to_the_host_is_what_the_next_graph_reads(both: BothWays) -> None:
    ops = [Op("fill", 0, value=7), Op("out", 0, 0), Op("in", 1, 0), Op("mix", 1, 1), Op("out", 1, 1)]
    assert both.run("outputs_become_inputs") == expected(ops, [[0] * WORDS])[0]


def test_pinned_memory_may_be_freed_before_the_graph_was_waited_for(both: BothWays) -> None:
    assert both.run("freed_before_it_is_waited_for") == 0
