from __future__ import annotations

import errno
import os

import pytest

from gpu_kernels.remoting.agent.floors import FILE_NAME, FloorsFile

pytestmark = pytest.mark.quick


def test_floors_are_there_after_a_restart(tmp_path):
    FloorsFile(tmp_path).keep({"a": 3, "b": 7}, 9)
    assert FloorsFile(tmp_path).load() == ({"a": 3, "b": 7}, 9)


def test_a_first_start_has_none(tmp_path):
    assert FloorsFile(tmp_path).load() == ({}, 0)


def test_a_full_disk_leaves_the_older_floors(tmp_path, monkeypatch):
    FloorsFile(tmp_path).keep({"a": 3}, 3)

    def disk_is_full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", disk_is_full)
    with pytest.raises(OSError, match="No space"):
        FloorsFile(tmp_path).keep({"a": 4}, 4)
    assert FloorsFile(tmp_path).load() == ({"a": 3}, 3)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", '{"floors": 3}', '{"floors": {"a": "x"}}', '{"floors": {"a": true}}'),
        '{"floors": {}, "epoch": "9"}',
    ],
)
def test_a_damaged_file_is_not_taken_for_an_empty_one(tmp_path, text):
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(ValueError, match=r"damaged|Expecting"):
        FloorsFile(tmp_path).load()


def test_a_file_of_an_older_agent_is_read(tmp_path):
    (tmp_path / FILE_NAME).write_text('{"floors": {"a": 3}}')
    assert FloorsFile(tmp_path).load() == ({"a": 3}, 0)
