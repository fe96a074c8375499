"""Host nodes: the function runs in the program, once a launch, and sees what was copied before it."""

from __future__ import annotations

from tests.both_ways import BothWays
from tests.softgpu.driver.raw import NOT_SUPPORTED


def test_called_at_each_launch_with_what_that_launch_has_copied(both: BothWays) -> None:
    values, value = [], 0
    for _ in range(10):
        value = 3 * value + 1
        values.append(value)
    assert both.run("called_at_each_launch") == list(zip([1] * 5 + [2] * 5, values, strict=True))


def test_captured_functions_and_those_of_child_graphs(both: BothWays) -> None:
    assert both.run("captured_and_in_a_child") == [1, 2, 3, 9] * 200


def test_a_launch_waits_for_its_function_and_the_program_does_not(both: BothWays) -> None:
    assert both.run("a_launch_waits_for_its_function") == [True, 0]


def test_a_copy_behind_a_function_reads_what_it_wrote(both: BothWays) -> None:
    large = 700_001  # more than what goes in one message
    first, whole, then, all_of_it, calls = both.run("a_copy_behind_a_function_reads_what_it_wrote", large)
    values, value = [], 0
    for call in range(1, 6):
        value = (3 * value + int.from_bytes(bytes([call] * 4), "little")) % 2**32
        values.append(value.to_bytes(4, "little"))
    assert (first, then) == (values[2], values[4])
    assert whole
    assert all_of_it
    assert calls == [1, 1, 1, 2, 2]


def test_what_a_function_changes_stays_changed(both: BothWays) -> None:
    seen, host, rows = both.run("what_a_function_changes_stays_changed")
    changed = bytes(255 - byte if byte % 2 == 0 else byte for byte in range(64))
    assert seen == [bytes(range(4))] * 2
    assert host == changed
    assert rows == b"".join(changed[start : start + 8] for start in range(0, 64, 16))


def test_a_copy_beside_a_function_that_it_would_undo_is_refused_when_forwarded(both: BothWays) -> None:
    assert both.straight.run("copies_beside_a_function") == [0, 0]
    assert both.forwarded.run("copies_beside_a_function") == [NOT_SUPPORTED, 0]
    assert "copies to host memory beside a function" in both.forwarded.log.read_text()
