"""What the tests of streams, events and pools of two devices do with a driver."""

from __future__ import annotations

from ctypes import byref, c_int, c_uint, c_uint64

from tests.memory.pool_cases import pool_properties
from tests.softgpu.driver import ptx
from tests.softgpu.driver.raw import HOST_FUNCTION, STREAM_LEGACY, STREAM_PER_THREAD, Cuda


def stream_number(cuda: Cuda, stream: int, form: str = "") -> int:
    number = c_uint64()
    cuda.code(f"cuStreamGetId{form}", stream, byref(number))
    return number.value


def what_streams_tell(cuda: Cuda) -> object:
    """Flags, priority and device of each, and whether its context is the current one; then their numbers."""
    low, high = c_int(), c_int()
    cuda.cuCtxGetStreamPriorityRange(byref(low), byref(high))
    current = cuda.new("cuCtxGetCurrent")
    urgent, idle = (cuda.new("cuStreamCreateWithPriority", 1, priority) for priority in (-100, 100))
    told = []
    for stream in (0, STREAM_LEGACY, STREAM_PER_THREAD, urgent, idle):
        flags, priority, device, context, green = c_uint(9), c_int(9), c_int(9), c_uint64(), c_uint64(9)
        cuda.cuStreamGetFlags(stream, byref(flags))
        cuda.cuStreamGetPriority(stream, byref(priority))
        cuda.cuStreamGetDevice(stream, byref(device))
        cuda.cuStreamGetCtx_v2(stream, byref(context), byref(green))
        bounds = (priority.value == high.value, priority.value == low.value)
        told.append((flags.value, bounds, device.value, context.value == current, green.value))
    legacy, own = stream_number(cuda, STREAM_LEGACY), stream_number(cuda, STREAM_PER_THREAD)
    numbers = [legacy, own, stream_number(cuda, urgent), stream_number(cuda, idle)]
    same = [
        stream_number(cuda, 0) == stream_number(cuda, STREAM_LEGACY, "_ptsz") == legacy,
        stream_number(cuda, 0, "_ptsz") == own,
        len(set(numbers)) == len(numbers),
    ]
    for stream in (urgent, idle):
        cuda.cuStreamDestroy_v2(stream)
    return told, same


def mistakes_with_streams_and_events(cuda: Cuda) -> list[int]:
    out, flags = c_uint64(), c_uint()
    stream, event = cuda.new("cuStreamCreate", 1), cuda.new("cuEventCreate", 2)
    codes = [
        cuda.code("cuStreamCreate", None, 0),
        cuda.code("cuStreamCreate", byref(out), 2),
        cuda.code("cuStreamGetFlags", stream, None),
        cuda.code("cuStreamGetFlags", event, byref(flags)),
        cuda.code("cuStreamDestroy_v2", 0),
        cuda.code("cuEventCreate", None, 0),
        cuda.code("cuEventCreate", byref(out), 8),
        cuda.code("cuEventCreate", byref(out), 6),  # for other processes
        cuda.code("cuEventRecord", stream, stream),
        cuda.code("cuEventRecord", event, event),
        cuda.code("cuEventRecordWithFlags", event, stream, 2),
        cuda.code("cuStreamWaitEvent", stream, stream, 0),
        cuda.code("cuStreamWaitEvent", stream, event, 2),
        cuda.code("cuEventQuery", stream),
        cuda.code("cuEventSynchronize", 0x1234),
    ]
    # None of these is left to a later call.
    codes.append(cuda.code("cuCtxSynchronize"))
    codes += [cuda.code("cuStreamDestroy_v2", stream), cuda.code("cuEventDestroy_v2", event)]
    codes += [cuda.code("cuStreamDestroy_v2", stream), cuda.code("cuEventDestroy_v2", event)]
    return [*codes, cuda.code("cuStreamGetFlags", stream, byref(flags)), cuda.code("cuEventQuery", event)]


def streams_without_a_context(cuda: Cuda) -> list[int]:
    """A stream and an event that were made are found; the default streams are those of a context."""
    stream, event, out = cuda.new("cuStreamCreate", 1), cuda.new("cuEventCreate", 2), c_uint64()
    cuda.cuCtxSetCurrent(None)
    codes = [cuda.code("cuStreamGetFlags", each, byref(out)) for each in (stream, 0, STREAM_PER_THREAD)]
    codes += [cuda.code("cuStreamGetId", each, byref(out)) for each in (stream, 0)]
    codes += [cuda.code("cuEventRecord", event, each) for each in (stream, 0)]
    codes += [cuda.code("cuStreamCreate", byref(out), 0), cuda.code("cuEventCreate", byref(out), 0)]
    codes += [cuda.code("cuEventSynchronize", event), cuda.code("cuEventDestroy_v2", event)]
    return [*codes, cuda.code("cuStreamDestroy_v2", stream)]


def within_a_function_of_a_stream(cuda: Cuda) -> list[int]:
    stream, event, pool = cuda.new("cuStreamCreate", 1), cuda.new("cuEventCreate", 2), c_uint64()
    codes: list[int] = []

    def calls(data: object) -> None:
        out = c_uint64()
        codes.extend(
            [
                cuda.code("cuStreamGetFlags", stream, byref(out)),
                cuda.code("cuStreamCreate", byref(out), 0),
                cuda.code("cuEventCreate", byref(out), 0),
                cuda.code("cuEventQuery", event),
                cuda.code("cuStreamWaitEvent", stream, event, 0),
                cuda.code("cuMemPoolCreate", byref(pool), pool_properties()),
                cuda.code("cuMemAddressReserve", byref(out), 2 << 20, 0, 0, 0),
                cuda.code("cuEventDestroy_v2", event),
                cuda.code("cuStreamDestroy_v2", stream),
            ]
        )

    function = HOST_FUNCTION(calls)
    cuda.cuLaunchHostFunc(stream, function, None)
    cuda.cuStreamSynchronize(stream)
    return codes


def streams_of_a_failed_context(cuda: Cuda) -> list[int]:
    """Ends the context for good: for a process of its own."""
    stream, event, out = cuda.new("cuStreamCreate", 1), cuda.new("cuEventCreate", 2), c_uint64()
    cuda.launch(cuda.kernel(cuda.load(ptx.HEADER + ptx.WILD), "wild"), stream=stream)
    return [
        cuda.code("cuStreamSynchronize", stream),
        cuda.code("cuStreamGetFlags", stream, byref(out)),
        cuda.code("cuStreamCreate", byref(out), 0),
        cuda.code("cuEventRecord", event, stream),
        cuda.code("cuEventQuery", event),
    ]


def pools_of_two_devices(cuda: Cuda) -> object:
    """Which device a pool may be current on, and which gets access to it."""
    pool, second, flags = cuda.new("cuMemPoolCreate", pool_properties()), c_uint64(), c_uint()
    properties = pool_properties()
    c_uint.from_buffer(properties, 12).value = 1
    cuda.cuMemPoolCreate(byref(second), properties)
    host, none, one, other = (3, 0, 3), (1, 1, 0), (1, 1, 1), (1, 1, 3)

    def access(*asked: tuple[int, int, int]) -> int:
        described = (c_uint * (3 * len(asked)))(*(number for each in asked for number in each))
        return cuda.code("cuMemPoolSetAccess", pool, described, len(asked))

    def is_accessible(device: int) -> tuple[int, int]:
        flags.value = 9
        return cuda.code("cuMemPoolGetAccess", byref(flags), pool, (c_uint * 2)(1, device)), flags.value

    codes = [
        cuda.code("cuDeviceSetMemPool", 0, second.value),
        cuda.code("cuDeviceSetMemPool", 1, second.value),
        cuda.code("cuMemSetMemPool", (c_uint * 2)(1, 0), 1, second.value),
        *(access(host), access(one), access(other), access(none)),
    ]
    seen = [is_accessible(device) for device in (0, 1, 9)]
    for each in (pool, second.value):
        cuda.cuMemPoolDestroy(each)
    return codes, seen


def allocations_in_streams_of_two_devices(cuda: Cuda) -> list[int]:
    """In a stream of device 1, while device 0 is current: the devices of memory of the stream's own pool, and
    of a pool of device 0."""
    here, there = cuda.new("cuCtxGetCurrent"), cuda.new("cuDevicePrimaryCtxRetain", 1)
    cuda.cuCtxSetCurrent(there)
    stream = cuda.new("cuStreamCreate", 1)
    cuda.cuCtxSetCurrent(here)
    pool = cuda.new("cuDeviceGetDefaultMemPool", 0)
    own = cuda.new("cuMemAllocAsync", 4096, stream)
    other = cuda.new("cuMemAllocFromPoolAsync", 4096, pool, stream)
    seen = [cuda.new("cuPointerGetAttribute", 9, address, kind=c_int) for address in (own, other)]
    owner = cuda.new("cuPointerGetAttribute", 1, own)
    for address in (own, other):
        cuda.cuMemFreeAsync(address, stream)
    cuda.cuStreamSynchronize(stream)
    cuda.cuStreamDestroy_v2(stream)
    cuda.cuDevicePrimaryCtxRelease_v2(1)
    return [*seen, owner == there]
