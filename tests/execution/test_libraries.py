"""Libraries, modules and links, and the options of both: the same straight and forwarded."""

from __future__ import annotations

from pathlib import Path

from tests.both_ways import BothWays

INVALID_VALUE, OUT_OF_MEMORY, INVALID_IMAGE, INVALID_CONTEXT, INVALID_PTX = 1, 2, 200, 201, 218
FILE_NOT_FOUND, INVALID_HANDLE, NOT_FOUND, NOT_PERMITTED, NOT_SUPPORTED = 301, 400, 500, 800, 801
KERNELS = ["mixed", "none", "bounded", "bump", "needs_shared"]


def test_kernels_by_name_and_number(both: BothWays) -> None:
    for number, listed, names, same, *codes in both.run("kernels_by_name_and_number").values():
        assert (number, names, same) == (5, KERNELS, True)
        assert listed == [0, [0] * 6, 0, [0] * 3]
        no_room, no_list, nowhere = 0, INVALID_VALUE, INVALID_HANDLE
        assert codes[:5] == [no_room, no_list, nowhere, INVALID_VALUE, INVALID_HANDLE]
        assert codes[5:] == [INVALID_VALUE, INVALID_VALUE, NOT_FOUND, NOT_FOUND, INVALID_HANDLE]


def test_variables(both: BothWays) -> None:
    for codes, value, *refused in both.run("variables").values():
        assert (codes, value) == ([0, 4, 0, True, 0, 8], b"\7\0\0\0")
        assert refused == [INVALID_VALUE, NOT_FOUND, NOT_FOUND, INVALID_HANDLE]


def test_a_handle_of_the_other_kind_is_none(both: BothWays) -> None:
    codes = both.run("handles_of_the_other_kind")
    assert codes[:5] == [INVALID_HANDLE] * 4 + [0]
    assert codes[5:10] == [NOT_PERMITTED, 0, 0, INVALID_VALUE, INVALID_HANDLE]
    assert codes[10:] == [0, 0, *[INVALID_HANDLE] * 4]


def test_a_library_needs_no_context_and_a_module_one(both: BothWays) -> None:
    codes = both.run("libraries_without_a_context")
    assert codes == [0] * 5 + [INVALID_CONTEXT] * 8


def test_files_that_are_no_images_are_refused(both: BothWays, tmp_path: Path) -> None:
    codes, nowhere, launched, early, linked = both.run("files", str(tmp_path))
    assert codes.pop("text") == (0, 0)
    assert codes == dict.fromkeys(codes, (INVALID_IMAGE, INVALID_IMAGE))
    no_file, folder, no_path = nowhere
    assert no_file == folder == (FILE_NOT_FOUND,) * 3
    assert no_path == (INVALID_VALUE,) * 3
    assert early == [INVALID_VALUE, INVALID_CONTEXT]  # before the file is looked at
    assert (launched, linked) == (0, [0, INVALID_IMAGE])


def test_images_that_are_none_are_refused(both: BothWays) -> None:
    nothing, *no_images, broken, nowhere = both.run("images_that_are_none")
    assert nothing == (INVALID_VALUE,) * 3
    assert no_images == [(INVALID_IMAGE,) * 3] * 3
    assert broken == (INVALID_PTX,) * 3
    assert nowhere == INVALID_VALUE


def test_jit_options_are_taken_or_refused(both: BothWays) -> None:
    codes, others = both.run("jit_options")
    number, threads, symbols, none = (0, 0, 0), (0, 0, 0), (NOT_SUPPORTED,) * 3, (INVALID_VALUE,) * 3
    assert [code for _, *code in codes] == [
        list(code) for code in (number, number, number, threads, threads, symbols, symbols, none, none, none)
    ]
    assert others == [INVALID_VALUE] * 3 + [0, 0, INVALID_VALUE, INVALID_VALUE]


def test_logs_are_cut_to_their_room_and_say_how_long_they_are(both: BothWays) -> None:
    (code, words, length, *_), (_, cut, seven, *_), (_, untouched, none, *_), right = both.run("logs")
    assert code == INVALID_PTX
    assert b"frobnicate" in words
    assert length == len(words)
    assert (cut, seven) == (words[:7], 7)
    assert (untouched, none) == (b"before", 0)
    assert right == (0, b"", 0, b"", 0, True)


def test_a_link_is_complete_once(both: BothWays) -> None:
    codes, result, end = both.run("a_link")
    assert codes[:7] == [0, 0, INVALID_VALUE, 0, 0, True, INVALID_VALUE]
    assert codes[7:] == [0, INVALID_HANDLE, INVALID_HANDLE, INVALID_HANDLE]
    assert (result, end) == (b"\x2a\0\0\0", 0)


def test_a_link_refuses_what_cannot_be_linked(both: BothWays) -> None:
    codes = both.run("what_a_link_refuses")
    assert codes[:5] == [INVALID_VALUE, INVALID_HANDLE, INVALID_VALUE, INVALID_VALUE, INVALID_VALUE]
    assert codes[5:9] == [INVALID_VALUE, NOT_SUPPORTED, INVALID_VALUE, INVALID_VALUE]
    assert codes[9:17] == [0, *[INVALID_VALUE] * 5, NOT_SUPPORTED, INVALID_VALUE]
    assert codes[17:] == [INVALID_PTX, 0, {0}, INVALID_VALUE]


def test_a_software_gpu_keeps_so_much_of_a_links_inputs_and_refuses_more_as_it_is_added(
    both: BothWays,
) -> None:
    """On the server, the worker's own driver does: the program is told when the link is made."""
    amount = 40 << 20
    assert both.straight.run("too_much_in_a_link", amount) == [0, OUT_OF_MEMORY, 0]
    assert both.forwarded.run("too_much_in_a_link", amount) == [0, 0, OUT_OF_MEMORY]


def test_a_link_of_nothing_is_refused(both: BothWays) -> None:
    assert both.run("a_link_of_nothing") == [0, INVALID_VALUE]


def test_a_function_that_a_stream_calls_loads_and_links_nothing(both: BothWays) -> None:
    assert both.run("within_a_function") == [NOT_PERMITTED] * 6 + [0]


def test_links_under_their_first_names(both: BothWays) -> None:
    assert both.run("the_first_links_of_cuda") == [0, 0, FILE_NOT_FOUND, 0, 0]
