"""Asynchronous copies to pinned memory return at once, and the bytes are there for who has waited."""

from __future__ import annotations

import pytest

from tests.both_ways import BothWays

NOT_READY = 600
KINDS = pytest.mark.parametrize("registered", [False, True], ids=["pinned", "registered"])
WAITS = (
    "the stream",
    "the context",
    "an event",
    "questions",
    "another stream",
    "a later copy",
    "a function of the stream",
)


@KINDS
@pytest.mark.parametrize("form", ["flat", "by pointers", "two dimensions", "three dimensions"])
def test_a_copy_returns_before_its_stream_has_come_to_it(both: BothWays, form: str, registered: bool) -> None:
    early, there = both.run("a_copy_returns_before_its_stream_has_come_to_it", form, registered)
    assert early == (False, True, NOT_READY)
    assert there


def test_a_copy_of_an_array_returns_before_its_stream_has_come_to_it(both: BothWays) -> None:
    seen = both.run("a_copy_of_an_array_returns_before_its_stream_has_come_to_it")
    assert seen == (False, True, True)


@pytest.mark.parametrize("how", WAITS)
def test_the_bytes_are_there_for_who_has_waited(both: BothWays, how: str) -> None:
    assert both.run("copied_when_waited_for", how) == (False, [True])


@KINDS
def test_memory_does_not_go_while_a_copy_to_it_is_under_way(both: BothWays, registered: bool) -> None:
    early, goes_on, there = both.run("memory_goes_before_a_wait", registered)
    assert not early
    assert goes_on
    assert there in (True, None)


@pytest.mark.parametrize("by", ["a copy in", "a kernel"])
def test_what_comes_after_the_copy_reads_what_it_has_brought(both: BothWays, by: str) -> None:
    assert both.run("bytes_that_are_on_their_way_are_used", by) == (False, True)


def test_a_graph_reads_what_a_copy_before_it_brings(both: BothWays) -> None:
    assert both.run("a_graph_reads_what_a_copy_brings") == (False, True)


def test_more_copies_than_may_be_under_way(both: BothWays) -> None:
    assert both.run("copies_without_a_wait", 3000, 4)


def test_more_copies_than_may_be_under_way_wait_for_none_that_is_held(both: BothWays) -> None:
    assert both.run("copies_while_the_oldest_is_held", 2000) == (False, True)


def test_a_copy_goes_on_while_another_stream_is_held(both: BothWays) -> None:
    assert both.run("copies_in_one_stream_while_another_is_held") == ((False, True, True), True)


def test_source_and_stream_may_go_before_the_copy(both: BothWays) -> None:
    assert both.run("source_and_stream_go_before_the_copy") == (False, True)
