"""The order that streams keep. Host callbacks that wait for the test stand for long work."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
import time
from ctypes import byref, c_float, c_int

import pytest

from . import raw
from .raw import HOST_FUNCTION, STREAM_CALLBACK

PATIENCE = 60


class Gate:
    """A host callback that holds its stream until the test opens it."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()
        self.callback = HOST_FUNCTION(self.hold)

    def hold(self, _data: object) -> None:
        self.entered.set()
        assert self.opened.wait(PATIENCE)


@pytest.fixture
def gate(cuda):
    made = Gate()
    yield made
    made.opened.set()
    cuda.code("cuCtxSynchronize")


def stream(cuda, flags: int = 0) -> int:
    return cuda.new("cuStreamCreate", flags)


kept_callbacks: list = []


def in_order(cuda, order: list, name: object):
    callback = HOST_FUNCTION(lambda _data: order.append(name))
    kept_callbacks.append(callback)
    return callback


def test_a_stream_is_in_order_and_returns_at_once(cuda, gate):
    one, order = stream(cuda), []
    cuda.cuLaunchHostFunc(one, gate.callback, None)
    for name in range(5):
        cuda.cuLaunchHostFunc(one, in_order(cuda, order, name), None)
    assert cuda.code("cuStreamQuery", one) == raw.NOT_READY
    assert order == []
    gate.opened.set()
    cuda.cuStreamSynchronize(one)
    assert order == [0, 1, 2, 3, 4]
    assert cuda.code("cuStreamQuery", one) == raw.SUCCESS


def test_streams_do_not_wait_for_each_other(cuda, gate):
    one, other = stream(cuda), stream(cuda)
    cuda.cuLaunchHostFunc(one, gate.callback, None)
    address = cuda.alloc(16)
    cuda.cuMemsetD8Async(address, 3, 16, other)
    cuda.cuStreamSynchronize(other)
    assert cuda.code("cuStreamQuery", one) == raw.NOT_READY


def test_the_legacy_stream_waits_for_blocking_streams_and_they_for_it(cuda, gate):
    blocking, free, order = stream(cuda), stream(cuda, raw.NON_BLOCKING), []
    cuda.cuLaunchHostFunc(blocking, gate.callback, None)
    cuda.cuLaunchHostFunc(0, in_order(cuda, order, "legacy"), None)
    cuda.cuLaunchHostFunc(stream(cuda), in_order(cuda, order, "after legacy"), None)
    cuda.cuLaunchHostFunc(free, in_order(cuda, order, "free"), None)
    cuda.cuStreamSynchronize(free)
    assert order == ["free"]
    gate.opened.set()
    cuda.cuCtxSynchronize()
    assert order == ["free", "legacy", "after legacy"]


def test_a_wait_for_the_legacy_stream_comes_after_blocking_streams(cuda, gate):
    blocking, order = stream(cuda), []
    cuda.cuLaunchHostFunc(blocking, gate.callback, None)
    cuda.cuLaunchHostFunc(blocking, in_order(cuda, order, "blocking"), None)
    assert cuda.code("cuStreamQuery", 0) == raw.NOT_READY
    threading.Timer(0.2, gate.opened.set).start()
    cuda.cuStreamSynchronize(0)
    assert order == ["blocking"]
    assert cuda.code("cuStreamQuery", 0) == raw.SUCCESS


def test_a_wait_for_the_legacy_stream_is_none_for_others(cuda, gate):
    cuda.cuLaunchHostFunc(stream(cuda, raw.NON_BLOCKING), gate.callback, None)
    cuda.cuStreamSynchronize(0)
    assert cuda.code("cuStreamQuery", 0) == raw.SUCCESS
    assert not gate.opened.is_set()
    gate.opened.set()


def test_the_per_thread_stream_is_one_a_thread(cuda):
    def identity(name: str, handle: int) -> int:
        out = ctypes.c_ulonglong()
        getattr(cuda, name)(handle, byref(out))
        return out.value

    context = cuda.new("cuCtxGetCurrent")
    mine = identity("cuStreamGetId", raw.STREAM_PER_THREAD)
    assert identity("cuStreamGetId_ptsz", 0) == mine
    assert identity("cuStreamGetId", 0) == identity("cuStreamGetId_ptsz", raw.STREAM_LEGACY) != mine
    others = []

    def other_thread() -> None:
        cuda.cuCtxPushCurrent_v2(context)
        others.append(identity("cuStreamGetId", raw.STREAM_PER_THREAD))

    thread = threading.Thread(target=other_thread)
    thread.start()
    thread.join()
    assert others != [mine]


def test_a_stream_waits_for_an_event_of_another(cuda, gate):
    one, other, order = stream(cuda, raw.NON_BLOCKING), stream(cuda, raw.NON_BLOCKING), []
    event = cuda.new("cuEventCreate", 0)
    cuda.cuLaunchHostFunc(one, gate.callback, None)
    cuda.cuEventRecord(event, one)
    cuda.cuStreamWaitEvent(other, event, 0)
    cuda.cuLaunchHostFunc(other, in_order(cuda, order, "other"), None)
    assert cuda.code("cuEventQuery", event) == raw.NOT_READY
    assert cuda.code("cuEventElapsedTime_v2", byref(c_float()), event, event) == raw.NOT_READY
    assert order == []
    gate.opened.set()
    cuda.cuStreamSynchronize(other)
    assert order == ["other"]
    assert cuda.code("cuEventQuery", event) == raw.SUCCESS


def test_waiting_for_an_event_means_what_was_recorded_then(cuda, gate):
    one, other = stream(cuda, raw.NON_BLOCKING), stream(cuda, raw.NON_BLOCKING)
    event = cuda.new("cuEventCreate", 0)
    cuda.cuEventRecord(event, one)
    cuda.cuStreamWaitEvent(other, event, 0)
    cuda.cuLaunchHostFunc(one, gate.callback, None)
    cuda.cuEventRecord(event, one)  # later, and not what `other` waits for
    cuda.cuStreamSynchronize(other)
    assert cuda.code("cuEventQuery", event) == raw.NOT_READY


def test_events_measure_time_and_refuse_what_has_none(cuda):
    start, end, untimed = (cuda.new("cuEventCreate", flags) for flags in (0, 0, 2))
    cuda.cuEventRecord(start, 0)
    cuda.cuEventRecord(end, 0)
    cuda.cuEventRecord(untimed, 0)
    cuda.cuEventSynchronize(end)
    milliseconds = cuda.new("cuEventElapsedTime_v2", start, end, kind=c_float)
    assert milliseconds >= 0
    assert cuda.code("cuEventElapsedTime_v2", byref(c_float()), start, untimed) == raw.INVALID_HANDLE
    never = cuda.new("cuEventCreate", 0)
    assert cuda.code("cuEventQuery", never) == raw.SUCCESS
    assert cuda.code("cuEventElapsedTime_v2", byref(c_float()), start, never) == raw.INVALID_HANDLE


def test_a_destroyed_stream_finishes_its_work(cuda, gate):
    one, order = stream(cuda), []
    event = cuda.new("cuEventCreate", 0)
    cuda.cuLaunchHostFunc(one, gate.callback, None)
    cuda.cuLaunchHostFunc(one, in_order(cuda, order, "last"), None)
    cuda.cuEventRecord(event, one)
    cuda.cuStreamDestroy_v2(one)
    assert cuda.code("cuStreamQuery", one) == raw.INVALID_HANDLE
    gate.opened.set()
    cuda.cuEventSynchronize(event)
    assert order == ["last"]


def test_a_full_stream_holds_its_caller_until_there_is_room(cuda, gate):
    one, order = stream(cuda), []
    cuda.cuLaunchHostFunc(one, gate.callback, None)
    assert gate.entered.wait(PATIENCE)
    finished = threading.Event()
    context = cuda.new("cuCtxGetCurrent")
    tick = in_order(cuda, order, 1)

    def fill() -> None:
        cuda.cuCtxPushCurrent_v2(context)
        for _ in range(3000):
            cuda.cuLaunchHostFunc(one, tick, None)
        finished.set()

    thread = threading.Thread(target=fill)
    thread.start()
    gate.opened.set()
    assert finished.wait(PATIENCE)
    thread.join()
    cuda.cuStreamSynchronize(one)
    assert len(order) == 3000


def test_a_callback_cannot_wait_but_may_ask(cuda):
    codes, context = [], cuda.new("cuCtxGetCurrent")

    def ask(_stream: object, status: int, _data: object) -> None:
        cuda.cuCtxPushCurrent_v2(context)
        codes.append(status)
        codes.append(cuda.code("cuCtxSynchronize"))
        codes.append(cuda.code("cuDeviceGetCount", byref(c_int())))

    callback = STREAM_CALLBACK(ask)
    cuda.cuStreamAddCallback(0, callback, None, 0)
    cuda.cuCtxSynchronize()
    assert codes == [raw.SUCCESS, raw.NOT_PERMITTED, raw.SUCCESS]


def test_a_context_ends_while_work_is_under_way(library):
    context = library.new("cuCtxCreate_v2", 0, 0)
    made = Gate()
    one, order = library.new("cuStreamCreate", 0), []
    skipped = in_order(library, order, "never")
    library.cuLaunchHostFunc(one, made.callback, None)
    library.cuLaunchHostFunc(one, skipped, None)
    assert made.entered.wait(PATIENCE)

    def open_once_it_ends() -> None:
        end = time.monotonic() + PATIENCE
        while library.code("cuStreamQuery", one) == raw.NOT_READY and time.monotonic() < end:
            time.sleep(0.001)
        made.opened.set()

    opener = threading.Thread(target=open_once_it_ends)
    opener.start()
    library.cuCtxDestroy_v2(context)
    opener.join()
    assert order == []
    assert library.code("cuStreamSynchronize", one) == raw.INVALID_HANDLE


def test_priorities_are_clamped(cuda):
    least, greatest, value = c_int(), c_int(), c_int()
    cuda.cuCtxGetStreamPriorityRange(byref(least), byref(greatest))
    assert (least.value, greatest.value) == (0, -5)
    high = cuda.new("cuStreamCreateWithPriority", raw.NON_BLOCKING, -100)
    cuda.cuStreamGetPriority(high, byref(value))
    assert value.value == -5
    assert cuda.code("cuStreamCreateWithPriority", byref(ctypes.c_uint64()), 8, 0) == raw.INVALID_VALUE


def test_a_program_that_waits_for_each_operation_has_one_dispatcher():
    """It runs them itself; who was woken for one and came too late finds the next."""
    program = """
import os
from tests.softgpu.driver.raw import Cuda
cuda = Cuda()
cuda.cuInit(0)
cuda.new("cuCtxCreate_v2", 0, 0)
memory = cuda.alloc(64)
before = len(os.listdir("/proc/self/task"))
for _ in range(2000):
    cuda.cuMemsetD8Async(memory, 1, 64, 0)
    cuda.cuCtxSynchronize()
print(len(os.listdir("/proc/self/task")) - before)
"""
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert int(done.stdout) <= 1
