"""What the tests of contexts and devices do with a driver. Each returns what a program sees."""

from __future__ import annotations

import threading
import time
from ctypes import Structure, byref, c_int, c_size_t, c_uint, c_uint64, c_void_p, create_string_buffer

from tests.softgpu.driver import ptx
from tests.softgpu.driver.raw import HOST_FUNCTION, Cuda

TEXT = ptx.HEADER + ptx.FILL


def current(cuda: Cuda) -> int:
    return int(cuda.new("cuCtxGetCurrent"))


def each_thread_has_a_stack_of_its_own(cuda: Cuda) -> object:
    base = current(cuda)
    made = [cuda.new("cuCtxCreate_v2", 0, device) for device in (0, 1, 0)]
    seen = [current(cuda) == made[-1], cuda.new("cuCtxGetDevice", kind=c_int)]
    elsewhere: list[object] = []

    def other() -> None:
        elsewhere.append(current(cuda))
        cuda.cuCtxPushCurrent_v2(made[1])
        elsewhere.append(cuda.new("cuCtxGetDevice", kind=c_int))
        popped = c_uint64()
        cuda.cuCtxPopCurrent_v2(byref(popped))
        elsewhere.append(popped.value == made[1])
        elsewhere.append(cuda.code("cuCtxPopCurrent_v2", byref(popped)))
        elsewhere.append(cuda.code("cuCtxSynchronize"))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    for context in reversed(made):
        seen.append(current(cuda) == context)
        cuda.cuCtxDestroy_v2(context)
    return seen, elsewhere, current(cuda) == base


def a_destroyed_context_is_found_out(cuda: Cuda) -> object:
    context = cuda.new("cuCtxCreate_v2", 0, 0)
    stream, event = cuda.new("cuStreamCreate", 0), cuda.new("cuEventCreate", 0)
    module = cuda.load(TEXT)
    function = cuda.kernel(module, "fill")
    cuda.cuCtxPushCurrent_v2(context)
    cuda.cuCtxDestroy_v2(context)  # pops one; it stays current below
    name = c_void_p()
    codes = [
        cuda.code("cuCtxSynchronize"),
        cuda.code("cuMemAlloc_v2", byref(c_uint64()), 16),
        cuda.code("cuStreamSynchronize", stream),
        cuda.code("cuEventQuery", event),
        cuda.code("cuCtxSetCurrent", context),
        cuda.code("cuCtxPushCurrent_v2", context),
        cuda.code("cuCtxDestroy_v2", context),
        cuda.code("cuCtxGetApiVersion", context, byref(c_uint())),
    ]
    at_top = current(cuda) == context
    cuda.cuCtxPopCurrent_v2(None)
    codes.append(cuda.code("cuModuleGetFunction", byref(c_uint64()), module, b"fill"))
    codes.append(cuda.code("cuFuncGetName", byref(name), function))
    return codes, at_top


def a_context_gives_back_what_it_owns(cuda: Cuda) -> object:
    before = cuda.free_bytes()
    cuda.new("cuCtxCreate_v2", 0, 0)
    context = current(cuda)
    blocks = [cuda.alloc(1 << 20) for _ in range(20)]
    cuda.cuMemFree_v2(blocks.pop())
    for _ in range(100):
        cuda.new("cuStreamCreate", 1)
        cuda.new("cuEventCreate", 0)
    library = cuda.new("cuLibraryLoadData", TEXT.encode(), None, None, 0, None, None, 0)
    fill = cuda.kernel(cuda.load(TEXT), "fill")
    cuda.launch(fill, c_uint64(blocks[0]), c_uint(1), c_uint(64), block=(64, 1, 1))
    taken = before - cuda.free_bytes() >= 19 << 20
    cuda.cuCtxDestroy_v2(context)
    gone = [cuda.code("cuMemFree_v2", block) for block in blocks[:2]]
    # A library belongs to no context.
    kernel = cuda.new("cuLibraryGetKernel", library, b"fill")
    to = cuda.alloc(40)
    cuda.launch(kernel, c_uint64(to), c_uint(5), c_uint(10), block=(32, 1, 1))
    data = cuda.read(to, 40)
    cuda.cuMemFree_v2(to)
    cuda.cuLibraryUnload(library)
    return taken, gone, data, before == cuda.free_bytes()


def what_belongs_to_one_context_is_not_for_another(cuda: Cuda) -> object:
    fill = cuda.kernel(cuda.load(TEXT), "fill")
    event = cuda.new("cuEventCreate", 0)
    to = cuda.alloc(40)
    context = cuda.new("cuCtxCreate_v2", 0, 0)
    stream = cuda.new("cuStreamCreate", 0)
    owner = c_uint64()
    cuda.cuStreamGetCtx(stream, byref(owner))
    codes = [
        cuda.launch(fill, c_uint64(to), c_uint(1), c_uint(10), block=(32, 1, 1)),
        cuda.code("cuEventRecord", event, stream),
        cuda.code("cuStreamWaitEvent", stream, event, 0),
        cuda.code("cuStreamSynchronize", stream),
    ]
    cuda.cuCtxDestroy_v2(context)
    cuda.cuMemFree_v2(to)
    return codes, owner.value == context


def the_primary_context_lives_from_retain_to_release(cuda: Cuda) -> object:
    def state(device: int) -> tuple[int, int]:
        return state_of_primary(cuda, device)

    seen: list[object] = [state(1)]
    cuda.cuDevicePrimaryCtxSetFlags_v2(1, 4)
    context = cuda.new("cuDevicePrimaryCtxRetain", 1)
    again = cuda.new("cuDevicePrimaryCtxRetain", 1)
    cuda.cuCtxPushCurrent_v2(context)
    first_life = context_id(cuda, context)
    block, stream = cuda.alloc(1 << 20), cuda.new("cuStreamCreate", 0)
    seen += [context == again, state(1), cuda.new("cuCtxGetFlags", kind=c_uint)]
    cuda.cuDevicePrimaryCtxRelease_v2(1)
    seen += [state(1), cuda.code("cuStreamQuery", stream)]
    cuda.cuDevicePrimaryCtxRelease_v2(1)
    seen += [
        state(1),
        cuda.code("cuDevicePrimaryCtxRelease_v2", 1),
        cuda.code("cuCtxSynchronize"),
        cuda.code("cuStreamQuery", stream),
        current(cuda) == context,
    ]
    seen.append(cuda.new("cuDevicePrimaryCtxRetain", 1) == context)
    seen += [cuda.code("cuCtxSynchronize"), cuda.code("cuMemFree_v2", block)]
    seen.append(context_id(cuda, context) != first_life)
    cuda.alloc(1 << 20)
    cuda.cuDevicePrimaryCtxReset_v2(1)
    seen += [state(1), cuda.code("cuCtxSynchronize"), cuda.code("cuCtxDestroy_v2", context)]
    cuda.cuDevicePrimaryCtxRelease_v2(1)
    cuda.cuCtxPopCurrent_v2(None)
    cuda.cuDevicePrimaryCtxSetFlags_v2(1, 0)
    return seen


def a_function_waits_for_who_retains(cuda: Cuda, ends: str) -> object:
    """A primary context ends while a function of its stream waits for a thread that retains it."""
    cuda.cuCtxPushCurrent_v2(cuda.new("cuDevicePrimaryCtxRetain", 1))
    stream, out = cuda.new("cuStreamCreate", 1), c_uint64()
    started, retained, returned = threading.Event(), threading.Event(), threading.Event()
    seen: list[object] = []

    def waits(data: object) -> None:
        started.set()
        seen.append(retained.wait(10))
        returned.set()

    def retains() -> None:
        while state_of_primary(cuda, 1)[1]:
            time.sleep(0.001)
        cuda.cuDevicePrimaryCtxRetain(byref(out), 1)
        retained.set()

    function, thread = HOST_FUNCTION(waits), threading.Thread(target=retains)
    cuda.cuLaunchHostFunc(stream, function, None)
    started.wait(10)
    thread.start()
    seen.append(cuda.code(ends, 1))
    thread.join()
    returned.wait(10)
    seen.append(state_of_primary(cuda, 1))
    while state_of_primary(cuda, 1)[1]:
        cuda.cuDevicePrimaryCtxRelease_v2(1)
    cuda.cuCtxPopCurrent_v2(None)
    return sorted(seen, key=str), cuda.code("cuDevicePrimaryCtxRelease_v2", 1)


def state_of_primary(cuda: Cuda, device: int) -> tuple[int, int]:
    flags, active = c_uint(), c_int()
    cuda.cuDevicePrimaryCtxGetState(device, byref(flags), byref(active))
    return flags.value, active.value


def the_flags_of_a_primary_context_are_one_value(cuda: Cuda) -> object:
    def flags() -> tuple[int, tuple[int, int]]:
        return cuda.new("cuCtxGetFlags", kind=c_uint), state_of_primary(cuda, 1)

    cuda.cuCtxPushCurrent_v2(cuda.new("cuDevicePrimaryCtxRetain", 1))
    seen: list[object] = []
    cuda.cuCtxSetFlags(2)
    seen.append(flags())
    cuda.cuDevicePrimaryCtxSetFlags_v2(1, 4)
    seen.append(flags())
    cuda.cuCtxSetFlags(1)
    cuda.cuDevicePrimaryCtxReset_v2(1)
    seen.append(state_of_primary(cuda, 1))
    cuda.new("cuDevicePrimaryCtxRetain", 1)
    seen.append(flags())
    for _ in range(2):
        cuda.cuDevicePrimaryCtxRelease_v2(1)
    cuda.cuCtxPopCurrent_v2(None)
    cuda.cuDevicePrimaryCtxSetFlags_v2(1, 0)
    return seen


def a_function_that_a_stream_calls_begins_and_ends_no_context(cuda: Cuda) -> object:
    """It may have one current, and ask about it."""
    made = cuda.new("cuCtxCreate_v2", 0, 1)
    cuda.cuCtxPopCurrent_v2(None)
    primary = cuda.new("cuDevicePrimaryCtxRetain", 1)
    stream = cuda.new("cuStreamCreate", 1)
    codes: list[object] = []

    def calls(data: object) -> None:
        context = c_uint64()
        codes.extend(
            [
                cuda.code("cuCtxCreate_v2", byref(context), 0, 0),
                cuda.code("cuCtxDestroy_v2", made),
                cuda.code("cuDevicePrimaryCtxRetain", byref(context), 1),
                cuda.code("cuDevicePrimaryCtxReset_v2", 1),
                *(cuda.code("cuDevicePrimaryCtxRelease_v2", 1) for _ in range(2)),
                cuda.code("cuCtxPushCurrent_v2", made),
                cuda.code("cuCtxDetach", made),
                cuda.new("cuCtxGetDevice", kind=c_int),
                state_of_primary(cuda, 1),
                cuda.code("cuCtxPopCurrent_v2", byref(context)),
                context.value == made,
            ]
        )

    function = HOST_FUNCTION(calls)
    cuda.cuLaunchHostFunc(stream, function, None)
    cuda.cuStreamSynchronize(stream)
    after = [
        cuda.code("cuCtxDestroy_v2", made),
        cuda.code("cuCtxGetApiVersion", primary, byref(c_uint())),
        *(cuda.code("cuDevicePrimaryCtxRelease_v2", 1) for _ in range(2)),
    ]
    cuda.cuStreamDestroy_v2(stream)
    return codes, after


def context_id(cuda: Cuda, context: int) -> int:
    number = c_uint64()
    cuda.cuCtxGetId(context, byref(number))
    return number.value


class AffinityParameter(Structure):
    _fields_ = (("type", c_int), ("value", c_int * 2))


class CreateParameters(Structure):
    _fields_ = (("affinity", c_void_p), ("affinities", c_int), ("cig", c_void_p))


def every_form_of_create(cuda: Cuda) -> object:
    made: list[int] = []
    context = c_uint64()

    def create(name: str, *arguments: object) -> int:
        code = cuda.code(name, byref(context), *arguments)
        if code == 0:
            made.append(context.value)
        return code

    codes = [
        create("cuCtxCreate", 0, 0),
        create("cuCtxCreate_v2", 4, 1),
        create("cuCtxCreate_v2", 3, 0),
        create("cuCtxCreate_v2", 0x10000, 0),
        create("cuCtxCreate_v2", 0, 2),
        create("cuCtxCreate_v3", None, 0, 0, 0),
        create("cuCtxCreate_v3", byref(AffinityParameter()), 1, 0, 0),
        create("cuCtxCreate_v4", None, 0, 0),
        create("cuCtxCreate_v4", byref(CreateParameters()), 0, 0),
        create("cuCtxCreate_v4", byref(CreateParameters(0, 1, 0)), 0, 0),
        create("cuCtxCreate_v4", byref(CreateParameters(0, 0, 1)), 0, 0),
        cuda.code("cuCtxCreate_v2", None, 0, 0),
    ]
    version = c_uint()
    versions = []
    for context_made in made:
        cuda.cuCtxGetApiVersion(context_made, byref(version))
        versions.append(version.value)
    different = len({context_id(cuda, one) for one in made}) == len(made)
    for one in reversed(made):
        cuda.cuCtxDestroy(one)
    return codes, versions, different


def attach_and_detach_count(cuda: Cuda) -> object:
    context = cuda.new("cuCtxCreate_v2", 0, 0)
    attached = cuda.new("cuCtxAttach", 0) == context
    codes = [
        cuda.code("cuCtxAttach", byref(c_uint64()), 1),
        cuda.code("cuCtxDetach", context),
        cuda.code("cuCtxSynchronize"),
        cuda.code("cuCtxDetach", context),
        cuda.code("cuCtxDetach", context),
    ]
    return attached, codes


def settings_are_of_the_context(cuda: Cuda) -> object:
    def settings() -> list[int]:
        limits = []
        for limit in range(8):
            value = c_size_t()
            code = cuda.code("cuCtxGetLimit", byref(value), limit)
            limits += [code, value.value]
        return [
            *limits,
            cuda.new("cuCtxGetCacheConfig", kind=c_int),
            cuda.new("cuCtxGetFlags", kind=c_uint),
        ]

    before = settings()
    context = cuda.new("cuCtxCreate_v2", 0, 0)
    fresh = settings()
    cuda.cuCtxSetLimit(0, 4096)
    cuda.cuCtxSetCacheConfig(2)
    cuda.cuCtxSetFlags(4)
    changed = settings()
    codes = [
        cuda.code("cuCtxSetLimit", 99, 1),
        cuda.code("cuCtxGetLimit", byref(c_size_t()), 99),
        cuda.code("cuCtxSetCacheConfig", 9),
        cuda.code("cuCtxSetFlags", 3),
    ]
    cuda.cuCtxDestroy_v2(context)
    return before, fresh, changed, settings() == before, codes


def a_stack_too_deep_is_refused(cuda: Cuda) -> object:
    base = current(cuda)
    pushed = 1
    push, context = cuda.library.cuCtxPushCurrent_v2, c_void_p(base)
    while (code := push(context)) == 0:
        pushed += 1
    for _ in range(pushed - 1):
        cuda.library.cuCtxPopCurrent_v2(None)
    return code, pushed, current(cuda) == base


def events_of_a_whole_context_in_captures(cuda: Cuda) -> object:
    base, context = current(cuda), cuda.new("cuCtxCreate_v2", 0, 0)
    streams = [cuda.new("cuStreamCreate", 1) for _ in range(2)]
    event, captured = (cuda.new("cuEventCreate", 0) for _ in range(2))

    def while_captured(name: str, in_context: int, which: int) -> list[int]:
        for stream in streams:
            cuda.cuStreamBeginCapture_v2(stream, 2)
        cuda.cuEventRecord(captured, streams[0])
        code = cuda.code(name, in_context, which)
        return [code, *(cuda.code("cuStreamEndCapture", stream, byref(c_uint64())) for stream in streams)]

    seen = [
        while_captured("cuCtxRecordEvent", context, event),
        while_captured("cuCtxWaitEvent", context, event),
        while_captured("cuCtxWaitEvent", base, captured),
        while_captured("cuCtxWaitEvent", base, event),
    ]
    codes = [cuda.code("cuCtxRecordEvent", context, captured), cuda.code("cuEventSynchronize", captured)]
    cuda.cuCtxDestroy_v2(context)
    return seen, codes


def events_of_a_whole_context(cuda: Cuda) -> object:
    context = cuda.new("cuCtxCreate_v2", 0, 0)
    to, stream = cuda.alloc(4000), cuda.new("cuStreamCreate", 1)
    fill = cuda.kernel(cuda.load(TEXT), "fill")
    event = cuda.new("cuEventCreate", 0)
    cuda.launch(fill, c_uint64(to), c_uint(1), c_uint(1000), grid=(32, 1, 1), block=(32, 1, 1), stream=stream)
    codes = [
        cuda.code("cuCtxRecordEvent", context, event),
        cuda.code("cuCtxWaitEvent", context, event),
        cuda.code("cuEventSynchronize", event),
        cuda.code("cuCtxRecordEvent", context, 77),
        cuda.code("cuCtxWaitEvent", 77, event),
    ]
    data = cuda.read(to, 4000)
    cuda.cuCtxDestroy_v2(context)
    return codes, data


def the_devices_of_a_lease(cuda: Cuda) -> object:
    count = cuda.new("cuDeviceGetCount", kind=c_int)
    seen: list[object] = [count, cuda.code("cuDeviceGet", byref(c_int()), count)]
    for device in range(count):
        uuid, place, name = (create_string_buffer(64) for _ in range(3))
        cuda.cuDeviceGetUuid_v2(uuid, device)
        cuda.cuDeviceGetPCIBusId(place, 64, device)
        cuda.cuDeviceGetName(name, 64, device)
        seen += [
            uuid.raw[:16],
            place.value,
            name.value.replace(b" (software GPU)", b""),
            cuda.new("cuDeviceTotalMem_v2", device, kind=c_size_t),
            cuda.new("cuDeviceTotalMem", device, kind=c_uint),
            cuda.new("cuDeviceGetByPCIBusId", place, kind=c_int),
            cuda.code("cuDeviceGetByPCIBusId", byref(c_int()), b""),
            cuda.code("cuDeviceGetLuid", uuid, byref(c_uint()), device),
            [cuda.new("cuDeviceCanAccessPeer", device, peer, kind=c_int) for peer in range(count)],
            [cuda.code("cuDeviceGetP2PAttribute", byref(c_int()), 1, device, p) for p in range(count)],
        ]
        major, minor = c_int(), c_int()
        cuda.cuDeviceComputeCapability(byref(major), byref(minor), device)
        properties = (c_int * 20)()
        cuda.cuDeviceGetProperties(properties, device)
        seen += [major.value, minor.value, list(properties)]
    return seen


def both_devices_at_once(cuda: Cuda, rounds: int) -> object:
    results: dict[int, bytes] = {}

    def work(device: int) -> None:
        cuda.cuCtxSetCurrent(cuda.new("cuDevicePrimaryCtxRetain", device))
        fill = cuda.kernel(cuda.load(TEXT), "fill")
        to = cuda.alloc(400)
        for i in range(rounds):
            value = c_uint(device * 1000 + i)
            cuda.launch(fill, c_uint64(to), value, c_uint(100), grid=(4, 1, 1), block=(32, 1, 1))
        results[device] = cuda.read(to, 400)
        cuda.cuMemFree_v2(to)
        cuda.cuDevicePrimaryCtxRelease_v2(device)

    threads = [threading.Thread(target=work, args=(device,)) for device in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def codes_of_hints(cuda: Cuda, peer: int) -> list[int]:
    number = c_int()
    return [
        cuda.code("cuCtxGetCacheConfig", byref(number)),
        cuda.code("cuCtxSetCacheConfig", 1),
        cuda.code("cuCtxGetSharedMemConfig", byref(number)),
        cuda.code("cuCtxSetSharedMemConfig", 1),
        cuda.code("cuCtxGetStreamPriorityRange", byref(number), None),
        cuda.code("cuCtxResetPersistingL2Cache"),
        cuda.code("cuCtxGetExecAffinity", byref(AffinityParameter()), 0),
        cuda.code("cuCtxEnablePeerAccess", peer, 0),
        cuda.code("cuCtxDisablePeerAccess", peer),
    ]


def hints(cuda: Cuda) -> object:
    wrong = [
        cuda.code("cuCtxSetCacheConfig", 4),
        cuda.code("cuCtxGetCacheConfig", None),
        cuda.code("cuCtxSetSharedMemConfig", 3),
        cuda.code("cuCtxGetSharedMemConfig", None),
        cuda.code("cuCtxGetExecAffinity", byref(AffinityParameter()), 1),
        cuda.code("cuCtxGetStreamPriorityRange", None, None),
    ]
    here = current(cuda)
    there = cuda.new("cuCtxCreate_v2", 0, 1)
    seen = codes_of_hints(cuda, here)
    called: list[int] = []

    def calls(data: object) -> None:
        cuda.cuCtxPushCurrent_v2(there)
        called.extend(codes_of_hints(cuda, here))
        cuda.cuCtxPopCurrent_v2(None)

    function, stream = HOST_FUNCTION(calls), cuda.new("cuStreamCreate", 1)
    cuda.cuLaunchHostFunc(stream, function, None)
    cuda.cuStreamSynchronize(stream)
    cuda.cuCtxPushCurrent_v2(there)
    cuda.cuCtxDestroy_v2(there)  # it stays current below
    ended = codes_of_hints(cuda, here)
    cuda.cuCtxPopCurrent_v2(None)
    none: list[int] = []
    thread = threading.Thread(target=lambda: none.extend(codes_of_hints(cuda, here)))
    thread.start()
    thread.join()
    return wrong, seen, called, ended, none


def hints_once_an_error_has_ended_the_context(cuda: Cuda) -> object:
    """Ends the context for good: for a process of its own."""
    peer = cuda.new("cuDevicePrimaryCtxRetain", 1)
    cuda.launch(cuda.kernel(cuda.load(ptx.HEADER + ptx.WILD), "wild"))
    sticky = cuda.code("cuCtxSynchronize")
    number, flags, long = c_int(), c_uint(), c_uint64()
    asked = [
        cuda.code("cuCtxGetDevice", byref(number)),
        cuda.code("cuCtxGetFlags", byref(flags)),
        cuda.code("cuCtxGetId", None, byref(long)),
        cuda.code("cuCtxGetApiVersion", None, byref(flags)),
    ]
    return sticky, codes_of_hints(cuda, peer), asked


def peers(cuda: Cuda) -> object:
    here = current(cuda)
    beside = cuda.new("cuCtxCreate_v2", 0, 1)
    there = cuda.new("cuCtxCreate_v2", 0, 1)
    codes = [
        cuda.code("cuCtxEnablePeerAccess", here, 0),
        cuda.code("cuCtxEnablePeerAccess", beside, 0),
        cuda.code("cuCtxEnablePeerAccess", there, 0),
        cuda.code("cuCtxEnablePeerAccess", here, 1),
        cuda.code("cuCtxEnablePeerAccess", 77, 0),
        cuda.code("cuCtxDisablePeerAccess", here),
        cuda.code("cuCtxDisablePeerAccess", 77),
        cuda.code("cuDeviceCanAccessPeer", byref(c_int()), 0, 5),
    ]
    cuda.cuCtxDestroy_v2(there)
    cuda.cuCtxDestroy_v2(beside)
    return codes


def variables_of_a_library_in_a_new_life(cuda: Cuda, reset: bool) -> object:
    """Leaves device 0 with its primary context retained once and current, as it was."""
    library = cuda.new("cuLibraryLoadData", (ptx.HEADER + ptx.SHAPES).encode(), None, None, 0, None, None, 0)
    kernel = cuda.new("cuLibraryGetKernel", library, b"bump")

    def value() -> int:
        address = cuda.new("cuLibraryGetGlobal", None, library, b"counter")
        return int.from_bytes(cuda.read(address, 4), "little")

    def count() -> int:
        cuda.launch(kernel)
        return value()

    seen = [value(), count(), count()]
    for _ in range(2):
        if reset:
            cuda.cuDevicePrimaryCtxReset_v2(0)
        cuda.cuDevicePrimaryCtxRelease_v2(0)
        cuda.cuCtxSetCurrent(cuda.new("cuDevicePrimaryCtxRetain", 0))
        seen += [value(), count(), count()]
    cuda.cuLibraryUnload(library)
    return seen
