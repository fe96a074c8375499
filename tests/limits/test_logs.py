"""What strangers cause in a log is bounded, and hides nothing else."""

from __future__ import annotations

import io
import logging

import pytest

from gpu_kernels.limits.logs import RateLimit, RateLimitedLogger, limit_rate
from gpu_kernels.limits.rates import TokenBucket


@pytest.fixture
def log():
    """A logger of its own that writes into ``stream``."""
    logger, stream = logging.Logger("test"), io.StringIO()
    logger.addHandler(logging.StreamHandler(stream))
    return logger, stream


def test_a_bucket_fills_evenly_and_never_over():
    now = 0.0
    bucket = TokenBucket(2, 0.5, clock=lambda: now)
    assert [bucket.take(), bucket.take(), bucket.take()] == [0, 0, 2]
    now = 2.0
    assert [bucket.take(), bucket.take()] == [0, 2]
    bucket.put_back()
    assert bucket.take() == 0
    now = 1000.0
    assert bucket.is_full
    assert [bucket.take(), bucket.take(), bucket.take()] == [0, 0, 2]


def test_a_subjects_lines_are_bounded_and_what_was_left_out_is_told(log):
    logger, stream = log
    limited = RateLimitedLogger(logger, "door", at_once=3, a_second=1e-9)
    for number in range(10):
        limited.line(logging.INFO, f"knock {number}\n")
    assert stream.getvalue() == "".join(f"door: knock {number}\\x0a\n" for number in range(3))
    limited._bucket.put_back()
    limited.line(logging.INFO, "open")
    assert stream.getvalue().endswith("door: 7 lines left out\ndoor: open\n")


def test_a_flood_of_one_line_does_not_hide_another_nor_go_on_for_ever(log):
    logger, stream = log
    limit_rate(logger.handlers)
    limit_rate(logger.handlers)
    for number in range(100_000):
        logger.info("stranger %d", number)
    logger.info("of use")
    lines = stream.getvalue().splitlines()
    assert lines[-1] == "of use"
    assert len(lines) < 10_000
    assert len(logger.handlers[0].filters) == 1


def test_what_was_left_out_is_told_with_the_next_line_of_that_place(log):
    logger, stream = log
    limit = RateLimit(at_once=2, a_second=1e-9)
    logger.handlers[0].addFilter(limit)

    def say(text: str) -> None:
        logger.info("said %s", text)

    for text in "abcde":
        say(text)
    for bucket, _ in limit._places.values():
        bucket.put_back()
    say("f")
    assert stream.getvalue().splitlines() == [
        "said a",
        "said b",
        "said f (3 lines like this one were left out)",
    ]


def test_several_handlers_tell_the_same(log):
    logger, stream = log
    other, limit = io.StringIO(), RateLimit(at_once=2, a_second=1e-9)
    logger.addHandler(logging.StreamHandler(other))
    for handler in logger.handlers:
        handler.addFilter(limit)
    for _ in range(5):
        logger.info("line")
    assert stream.getvalue() == other.getvalue() == "line\n" * 2
