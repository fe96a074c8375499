"""Graphs looked at and changed, straight and forwarded."""

from __future__ import annotations

from pathlib import Path

from tests.both_ways import BothWays
from tests.softgpu.driver import raw

from .driver import BYTES, CHILD, COPY, EMPTY, FILL_NODE, KERNEL, RECORD_EVENT

BAD, UNSUPPORTED = raw.INVALID_VALUE, raw.NOT_SUPPORTED


def test_a_graph_tells_its_nodes_and_edges(both: BothWays, tmp_path: Path) -> None:
    kinds, nodes, roots, edges, before, after, ids, contained, *rest = both.run("topology", str(tmp_path))
    assert kinds == [EMPTY, KERNEL, FILL_NODE, COPY, CHILD, RECORD_EVENT]
    assert (nodes, roots, ids, contained) == ([0, 1, 2, 3, 4, 5], [0, 5], [0, 1, 2, 3, 4, 5], True)
    assert edges == [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]
    assert (before, after) == ([1, 2], [1, 2])
    twins, not_an_original, circle, doubled, changed, removed, *rest = rest
    assert twins == [True, set()]
    assert (not_an_original, circle, doubled, removed) == (BAD, BAD, BAD, BAD)
    assert changed == [(0, 1), (3, 4), (5, 3)]
    assert rest == [3, True, True, 1, BAD]


def test_parameters_come_back_and_can_be_changed(both: BothWays) -> None:
    told, ran = [True, 1, 16, 5, 16, True, 1, 4, 16, 1], [[5, 6, 1, 1], [50, 51, 2, 2]]
    disabled, updated = [[0, 0, 2, 2], 0], [[70, 71, 1, 1], 0]
    assert both.run("parameters") == [*told, *ran, *disabled, *updated, BAD, BAD, BAD, BAD, BAD]


def test_an_update_that_cannot_be_names_the_node(both: BothWays) -> None:
    changed, topology, kind, values = 910, 2, 3, 5
    assert both.run("updates") == [
        (0, 0, None),
        (changed, topology, None),
        (changed, topology, 1),
        (changed, kind, 1),
        (changed, values, 1),
        (changed, kind),
    ]


def test_memory_of_a_graph_stays_where_it_is(both: BothWays) -> None:
    nine = b"\x09\0\0\0"
    assert both.run("memory") == [
        *((0, BYTES), UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, BAD),
        *(nine, (BYTES, BYTES), BAD, (0, BYTES), 0),
        *(0, 0, 0, nine, (BYTES, BYTES), (0, 0)),
    ]


def test_a_user_object_goes_with_the_last_that_holds_it(both: BothWays) -> None:
    assert both.run("user_objects") == [str(BAD), "", "", "gone"]


def test_what_is_not_done_is_refused(both: BothWays) -> None:
    assert both.run("refused") == [*[UNSUPPORTED] * 4, *[BAD] * 4]
