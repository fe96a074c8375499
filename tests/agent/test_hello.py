"""The Hello is read from hostile bytes."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_kernels.remoting.hello import MAX_ANSWER_TEXT, Refusal, Status, answer, parse_hello, without_secret
from tests.agent.fake_controller import Granted
from tests.agent.lanes import hello

pytestmark = pytest.mark.quick

lease_ids = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=40)
secrets = st.binary(min_size=32, max_size=32)
epochs = st.integers(0, 2**64 - 1)


@given(st.binary(max_size=300))
def test_no_bytes_do_more_than_get_refused(data):
    with pytest.raises(Refusal):
        parse_hello(data)


@given(lease_ids, epochs, secrets, st.integers(0, 2**32 - 1), st.integers(0, 2))
def test_what_a_client_sends_is_what_is_read(lease_id, epoch, secret, lane, flags):
    read = parse_hello(hello(Granted(lease_id, epoch, secret), lane=lane, flags=flags))
    assert (read.lease_id, read.epoch, read.secret) == (lease_id, epoch, secret)
    assert (read.lane, read.is_status_query, read.wants_slice_file) == (lane, flags == 1, flags == 2)


@given(lease_ids, epochs, secrets, st.integers(0, 127), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_read_as_another_hello(lease_id, epoch, secret, at, change):
    data = bytearray(hello(Granted(lease_id, epoch, secret), session=bytes(16)))
    before = parse_hello(data)
    data[at] ^= change
    with contextlib.suppress(Refusal):
        assert parse_hello(data) != before


@given(lease_ids, epochs, secrets.filter(any))
def test_the_secret_is_in_no_copy_and_no_text(lease_id, epoch, secret):
    data = hello(Granted(lease_id, epoch, secret), session=bytes(16))
    assert parse_hello(without_secret(data)).secret == bytes(32)
    assert secret.hex() not in repr(parse_hello(data))
    assert repr(secret) not in repr(parse_hello(data))


@given(st.sampled_from(Status), st.text())
def test_an_answer_is_bounded_and_its_length_is_right(status, text):
    data = answer(status, text)
    told, length = struct.unpack_from("<II", data)
    assert (told, length) == (status, len(data) - 8)
    assert length <= MAX_ANSWER_TEXT
    assert text.startswith(data[8:].decode())
