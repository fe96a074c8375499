from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

import pytest

from . import raw
from .raw import HOST_FUNCTION

STREAM_CAPTURE_UNSUPPORTED = 900
STREAM_CAPTURE_INVALIDATED = 901
STREAM_CAPTURE_UNJOINED = 904
STREAM_CAPTURE_IMPLICIT = 906
CAPTURED_EVENT = 907
SPACE = c_uint64()  # what a call may write to that is made while a stream is captured


@pytest.fixture
def stream(cuda) -> int:
    return cuda.new("cuStreamCreate", 0)


class Recorder:
    """Host functions that note when they are called."""

    def __init__(self) -> None:
        self.calls: list[object] = []
        self._kept: list[object] = []

    def __call__(self, name: object) -> object:
        function = HOST_FUNCTION(lambda _data: self.calls.append(name))
        self._kept.append(function)
        return function


def captured(cuda, stream: int) -> int:
    graph = c_uint64()
    cuda.cuStreamEndCapture(stream, byref(graph))
    return graph.value


def instantiate(cuda, graph: int) -> int:
    return cuda.new("cuGraphInstantiateWithFlags", graph, 0)


def test_what_is_captured_runs_at_each_launch_and_not_before(cuda, stream):
    record = Recorder()
    address = cuda.alloc(16)
    cuda.cuStreamBeginCapture_v2(stream, 0)
    cuda.cuMemsetD8Async(address, 7, 16, stream)
    cuda.cuLaunchHostFunc(stream, record("a"), None)
    cuda.cuLaunchHostFunc(stream, record("b"), None)
    graph = captured(cuda, stream)
    cuda.cuStreamSynchronize(stream)
    assert record.calls == []
    ready = instantiate(cuda, graph)
    for _ in range(2):
        cuda.cuGraphLaunch(ready, stream)
    cuda.cuGraphExecDestroy(ready)
    cuda.cuStreamSynchronize(stream)
    assert record.calls == ["a", "b", "a", "b"]
    assert cuda.read(address, 16) == b"\x07" * 16


def test_streams_join_a_capture_through_events(cuda, stream):
    record, other = Recorder(), cuda.new("cuStreamCreate", 0)
    fork, join = cuda.new("cuEventCreate", 2), cuda.new("cuEventCreate", 2)
    cuda.cuStreamBeginCapture_v2(stream, 0)
    cuda.cuLaunchHostFunc(stream, record("first"), None)
    cuda.cuEventRecord(fork, stream)
    cuda.cuStreamWaitEvent(other, fork, 0)
    cuda.cuLaunchHostFunc(other, record("branch"), None)
    cuda.cuEventRecord(join, other)
    cuda.cuStreamWaitEvent(stream, join, 0)
    cuda.cuLaunchHostFunc(stream, record("last"), None)
    graph = captured(cuda, stream)
    count = c_size_t()
    cuda.cuGraphGetEdges_v2(graph, None, None, None, byref(count))
    assert count.value == 3  # first to branch, first to last, branch to last
    cuda.cuGraphLaunch(instantiate(cuda, graph), stream)
    cuda.cuStreamSynchronize(stream)
    assert record.calls == ["first", "branch", "last"]
    cuda.cuLaunchHostFunc(other, record("after"), None)  # no longer captured
    cuda.cuStreamSynchronize(other)
    assert record.calls[-1] == "after"


def test_a_branch_that_does_not_come_back_fails_the_capture(cuda, stream):
    record, other, fork = Recorder(), cuda.new("cuStreamCreate", 0), cuda.new("cuEventCreate", 2)
    cuda.cuStreamBeginCapture_v2(stream, 0)
    cuda.cuEventRecord(fork, stream)
    cuda.cuStreamWaitEvent(other, fork, 0)
    cuda.cuLaunchHostFunc(other, record("lost"), None)
    assert cuda.code("cuStreamEndCapture", stream, byref(c_uint64())) == STREAM_CAPTURE_UNJOINED


@pytest.mark.parametrize("joined", [True, False])
def test_a_branch_may_be_destroyed_once_it_has_come_back(cuda, stream, joined):
    record, other = Recorder(), cuda.new("cuStreamCreate", 0)
    fork, join = cuda.new("cuEventCreate", 2), cuda.new("cuEventCreate", 2)
    cuda.cuStreamBeginCapture_v2(stream, 0)
    cuda.cuEventRecord(fork, stream)
    cuda.cuStreamWaitEvent(other, fork, 0)
    cuda.cuLaunchHostFunc(other, record("branch"), None)
    if joined:
        cuda.cuEventRecord(join, other)
        cuda.cuStreamWaitEvent(stream, join, 0)
    cuda.cuStreamDestroy_v2(other)
    cuda.cuLaunchHostFunc(stream, record("last"), None)
    if not joined:
        assert cuda.code("cuStreamEndCapture", stream, byref(c_uint64())) == STREAM_CAPTURE_UNJOINED
        return
    cuda.cuGraphLaunch(instantiate(cuda, captured(cuda, stream)), stream)
    cuda.cuStreamSynchronize(stream)
    assert record.calls == ["branch", "last"]


def captured_event_is_asked_about(cuda, stream) -> int:
    event = cuda.new("cuEventCreate", 2)
    cuda.cuEventRecord(event, stream)
    return int(cuda.code("cuEventQuery", event))


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda cuda, stream: cuda.code("cuStreamSynchronize", stream), STREAM_CAPTURE_UNSUPPORTED),
        (lambda cuda, stream: cuda.code("cuStreamQuery", stream), STREAM_CAPTURE_UNSUPPORTED),
        (lambda cuda, stream: cuda.code("cuMemAlloc_v2", byref(c_uint64()), 64), STREAM_CAPTURE_UNSUPPORTED),
        (lambda cuda, stream: cuda.code("cuCtxSynchronize"), STREAM_CAPTURE_UNSUPPORTED),
        (captured_event_is_asked_about, CAPTURED_EVENT),
        (lambda cuda, stream: cuda.code("cuMemsetD8Async", SPACE, 1, 4, 0), STREAM_CAPTURE_IMPLICIT),
    ],
)
def test_what_a_graph_cannot_hold_ends_the_capture(cuda, stream, call, code):
    SPACE.value = cuda.alloc(4)
    cuda.cuStreamBeginCapture_v2(stream, 0)
    assert call(cuda, stream) == code
    status = c_int()
    cuda.cuStreamIsCapturing(stream, byref(status))
    assert status.value == 2
    assert cuda.code("cuStreamEndCapture", stream, byref(c_uint64())) == STREAM_CAPTURE_INVALIDATED
    cuda.cuStreamIsCapturing(stream, byref(status))
    assert status.value == 0
    cuda.cuStreamSynchronize(stream)


def test_capture_is_asked_about_and_ended_by_its_stream_only(cuda, stream):
    other, status, number = cuda.new("cuStreamCreate", 0), c_int(), c_uint64()
    assert cuda.code("cuStreamEndCapture", stream, byref(c_uint64())) == 401
    cuda.cuStreamBeginCapture_v2(stream, 2)
    assert cuda.code("cuStreamBeginCapture_v2", stream, 2) == 401
    cuda.cuStreamGetCaptureInfo_v2(stream, byref(status), byref(number), None, None, None)
    assert (status.value, number.value > 0) == (1, True)
    assert cuda.code("cuStreamEndCapture", other, byref(c_uint64())) == 401
    assert cuda.code("cuStreamBeginCapture_v2", 0, 0) == STREAM_CAPTURE_UNSUPPORTED
    captured(cuda, stream)


def host_node(cuda, graph: int, function: object, after: list[int]) -> int:
    class HostParams(ctypes.Structure):
        _fields_ = (("fn", c_void_p), ("data", c_void_p))

    params = HostParams(ctypes.cast(function, c_void_p), None)
    before = (c_uint64 * max(len(after), 1))(*after)
    return cuda.new("cuGraphAddHostNode", graph, before, len(after), byref(params))


def test_nodes_run_in_the_order_of_their_edges(cuda, stream):
    record, graph = Recorder(), cuda.new("cuGraphCreate", 0)
    last = host_node(cuda, graph, record("last"), [])
    first = host_node(cuda, graph, record("first"), [])
    middle = host_node(cuda, graph, record("middle"), [first])
    cuda.cuGraphAddDependencies_v2(graph, (c_uint64 * 1)(middle), (c_uint64 * 1)(last), None, 1)
    circle = ((c_uint64 * 1)(last), (c_uint64 * 1)(first))
    assert cuda.code("cuGraphAddDependencies_v2", graph, *circle, None, 1) == raw.INVALID_VALUE
    nodes, count = (c_uint64 * 8)(), c_size_t(8)
    cuda.cuGraphGetRootNodes(graph, nodes, byref(count))
    assert list(nodes[: count.value]) == [first]
    kind = c_uint()
    cuda.cuGraphNodeGetType(first, byref(kind))
    assert kind.value == 3
    copy = cuda.new("cuGraphClone", graph)
    cuda.cuGraphDestroy(graph)
    assert cuda.code("cuGraphNodeGetType", first, byref(kind)) == raw.INVALID_VALUE
    cuda.cuGraphLaunch(instantiate(cuda, copy), stream)
    cuda.cuStreamSynchronize(stream)
    assert record.calls == ["first", "middle", "last"]


def test_a_user_object_goes_with_the_last_that_needs_it(cuda, stream):
    record, graph = Recorder(), cuda.new("cuGraphCreate", 0)
    thing = cuda.new("cuUserObjectCreate", None, record("gone"), 1, 1)
    cuda.cuGraphRetainUserObject(graph, thing, 1, 1)
    assert cuda.code("cuUserObjectRelease", thing, 1) == raw.INVALID_VALUE  # moved into the graph
    ready = instantiate(cuda, graph)
    cuda.cuGraphDestroy(graph)
    assert record.calls == []
    cuda.cuGraphExecDestroy(ready)
    assert record.calls == ["gone"]
