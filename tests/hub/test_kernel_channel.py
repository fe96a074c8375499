import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_server.services.kernels.connection.base import (
    deserialize_msg_from_ws_v1,
    serialize_msg_to_ws_v1,
)

from gpu_kernels.hub_config.lab.kernel_channel import decode, encode

pytestmark = pytest.mark.quick


def test_the_server_reads_what_we_write():
    message_id, frame = encode("shell", "execute_request", {"code": "1"}, "s")
    channel, parts = deserialize_msg_from_ws_v1(frame)
    assert channel == "shell"
    assert message_id.encode() in parts[0]
    assert parts[3] == b'{"code": "1"}'


def test_we_read_what_the_server_writes():
    parts = [b'{"msg_type": "status"}', b'{"msg_id": "m"}', b"{}", b'{"execution_state": "idle"}', b"buffer"]
    message = decode(serialize_msg_to_ws_v1(parts, "iopub"))
    assert (message.channel, message.kind, message.parent) == ("iopub", "status", "m")
    assert message.content == {"execution_state": "idle"}


@given(st.binary(max_size=200))
def test_garbage_is_refused_as_a_value_error(frame):
    with pytest.raises((ValueError, KeyError)):
        decode(frame)
