"""Batches of copies, straight and forwarded."""

from __future__ import annotations

import pytest

from tests.both_ways import BothWays
from tests.softgpu.driver import raw

BAD, WHOLE = raw.INVALID_VALUE, 2**64 - 1
STREAM, DURING, ANY = 1, 2, 3


def copied(sizes: list[int]) -> bytes:
    after = bytearray(256)
    for i, size in enumerate(sizes):
        after[16 * i : 16 * i + size] = range(16 * i, 16 * i + size)
    return bytes(after)


@pytest.mark.parametrize("form", ["cuMemcpyBatchAsync", "cuMemcpyBatchAsync_ptsz", "cuMemcpyBatchAsync_v2"])
def test_a_batch_copies_each_piece(both: BothWays, form: str) -> None:
    sizes = [16, 1, 7, 15, 3]
    told = WHOLE if "_v2" not in form else 77
    result = both.run("batch", form, "own", sizes, [STREAM, DURING, ANY], [0, 2, 4])
    assert result == (raw.SUCCESS, told, copied(sizes))


@pytest.mark.parametrize(
    ("stream_of", "sizes", "orders", "starts", "failed"),
    [
        ("default", [4, 4], [STREAM], [0], WHOLE),
        ("legacy", [4, 4], [STREAM], [0], WHOLE),
        ("own", [4, 4], [], [], WHOLE),
        ("own", [4, 4], [0], [0], WHOLE),
        ("own", [4, 4], [9], [0], WHOLE),
        ("own", [4, 4], [STREAM], [1], WHOLE),
        ("own", [4, 4], [STREAM, ANY], [0, 0], WHOLE),
        ("own", [4, 4], [STREAM, ANY], [0, 2], WHOLE),
        ("own", [4], [STREAM, ANY], [0, 1], WHOLE),
        ("own", [4, 0, 4], [STREAM], [0], 1),
        ("own", [4, 4, 2**63], [STREAM], [0], 2),
    ],
)
def test_a_wrong_batch_says_which_copy_is_to_blame(
    both: BothWays, stream_of: str, sizes: list[int], orders: list[int], starts: list[int], failed: int
) -> None:
    done = sizes[:failed] if failed != WHOLE else []
    result = both.run("batch", "cuMemcpyBatchAsync", stream_of, sizes, orders, starts)
    assert result == (BAD, failed, copied(done))


def test_boxes_come_in_batches_too(both: BothWays) -> None:
    source, after = bytes(range(256)), bytearray(256)
    after[0:6] = source[0:3] + source[8:11]
    after[64:68] = source[64:66] + source[96:98]
    assert both.run("batch_3d", [(3, 2, 1), (2, 1, 2)], STREAM) == (raw.SUCCESS, WHOLE, bytes(after))
    assert both.run("batch_3d", [(3, 2, 1), (2, 0, 2)], STREAM)[:2] == (BAD, 1)
    assert both.run("batch_3d", [(9, 2, 1)], STREAM) == (BAD, 0, bytes(256))
    assert both.run("batch_3d", [(3, 2, 1)], 0) == (BAD, 0, bytes(256))


def test_a_million_copies_in_a_batch_are_only_many(both: BothWays) -> None:
    assert both.run("a_million_copies") == (raw.SUCCESS, bytes(range(250)) * 4)
