"""What the tests of shared memory, seen and changed by the host while streams work, do with a driver."""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from collections.abc import Callable
from ctypes import c_int, c_size_t, c_uint, c_uint64, c_void_p

from tests.softgpu.driver.raw import HOST_FUNCTION, NON_BLOCKING, NOT_READY, Cuda

from .shared_cases import KERNELS

EQUAL, COUNT, ATTACH_HOST = 1, 16, 2
SLOW = """
.version 7.5
.target sm_75
.address_size 64
.visible .entry slow() {
    .reg .u32 %i; .reg .pred %p;
    mov.u32 %i, 0;
again:
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, 3000000;
    @%p bra again;
    ret;
}
"""
Words = ctypes.Array[c_uint]


def shared(cuda: Cuda, kind: str, size: int) -> int:
    """Managed memory, the same attached to the host, or mapped pinned memory: the device's address."""
    if kind != "mapped":
        address = int(cuda.new("cuMemAllocManaged", size, 1))
        if kind == "attached":
            cuda.cuStreamAttachMemAsync(0, address, 0, ATTACH_HOST)
        return address
    host = cuda.new("cuMemHostAlloc", size, 2)
    assert cuda.new("cuMemHostGetDevicePointer_v2", host, 0) == host
    return int(host)


def adder(cuda: Cuda, address: int) -> Callable[[int], None]:
    """Adds one to the first words, in a stream."""
    kernel = cuda.kernel(cuda.load(KERNELS), "add_one")

    def add(stream: int) -> None:
        code = cuda.launch(kernel, c_uint64(address), c_uint(COUNT), block=(COUNT, 1, 1), stream=stream)
        assert code == 0

    return add


def a_function_sees_and_changes_shared_memory(cuda: Cuda, kind: str, size: int) -> object:
    address, stream = shared(cuda, kind, size), cuda.new("cuStreamCreate", NON_BLOCKING)
    words: Words = (c_uint * (size // 4)).from_address(address)
    words[:] = list(range(size // 4))
    add, seen = adder(cuda, address), []

    def look(data: int) -> None:
        seen.append((words[0], words[1], words[COUNT], words[-1]))
        words[1] = 1000 * data
        words[-1] += 7

    functions = [HOST_FUNCTION(look)]
    for turn in range(1, 4):
        add(stream)
        cuda.cuLaunchHostFunc(stream, functions[0], c_void_p(turn))
    add(stream)
    cuda.cuStreamSynchronize(stream)
    return seen, words[: COUNT + 1], words[-1]


def a_function_goes_on_while_others_use_the_memory(cuda: Cuda, kind: str) -> object:
    """Between two things that it writes the program submits work, and waits for another stream."""
    size = 600_000
    address = shared(cuda, kind, size)
    words: Words = (c_uint * (size // 4)).from_address(address)
    words[:] = list(range(size // 4))
    stream, other = (cuda.new("cuStreamCreate", NON_BLOCKING) for _ in range(2))
    add, kernel = adder(cuda, address), cuda.kernel(cuda.load(KERNELS), "add_one")
    begun, used = threading.Event(), threading.Event()

    def look(_: int) -> None:
        words[COUNT + 1] = 77
        begun.set()
        used.wait(60)
        words[-1] += 7

    function = HOST_FUNCTION(look)
    add(stream)
    cuda.cuLaunchHostFunc(stream, function, None)
    assert begun.wait(60)
    add(stream)  # behind the function
    last = address + size - 4 * 2 * COUNT
    cuda.launch(kernel, c_uint64(last), c_uint(COUNT), block=(COUNT, 1, 1), stream=other)
    cuda.cuStreamSynchronize(other)
    seen = words[COUNT + 1], words[-2 * COUNT]
    used.set()
    cuda.cuCtxSynchronize()
    return seen, words[:3], words[COUNT + 1], words[-2 * COUNT], words[-1]


def a_function_goes_on_while_its_memory_goes_to_the_device(cuda: Cuda, kind: str) -> object:
    """It began before any kernel was launched."""
    size = 600_000
    address, stream = shared(cuda, kind, size), cuda.new("cuStreamCreate", NON_BLOCKING)
    words: Words = (c_uint * (size // 4)).from_address(address)
    words[:] = list(range(size // 4))
    add, begun, used = adder(cuda, address), threading.Event(), threading.Event()

    def look(_: int) -> None:
        words[COUNT] = 77
        begun.set()
        used.wait(60)
        words[-1] += 7

    function = HOST_FUNCTION(look)
    cuda.cuLaunchHostFunc(stream, function, None)
    assert begun.wait(60)
    add(cuda.new("cuStreamCreate", NON_BLOCKING))
    used.set()
    cuda.cuCtxSynchronize()
    return words[: COUNT + 2], words[-1]


def functions_change_memory_on_its_way_to_the_device(cuda: Cuda, kind: str) -> list[object]:
    """In a stream of each kind, of which the default one waits for some: a function that has begun when a
    kernel is launched behind it, and one that has perhaps not."""
    streams = [cuda.new("cuStreamCreate", flags) for flags in (0, NON_BLOCKING)]
    results: list[object] = []
    for stream in (*streams, 0):
        for begins_first in (True, False):
            address = shared(cuda, kind, 4096)
            words: Words = (c_uint * 1024).from_address(address)
            words[:] = [5] * 1024
            add, seen, begun, used = adder(cuda, address), [], threading.Event(), threading.Event()

            def look(_: int, words=words, seen=seen, begun=begun, used=used) -> None:  # type: ignore[no-untyped-def]
                seen.append(words[0])
                begun.set()
                used.wait(60)
                words[1] = 100

            function = HOST_FUNCTION(look)
            cuda.cuLaunchHostFunc(stream, function, None)
            assert not begins_first or begun.wait(60)
            add(stream)
            used.set()
            cuda.cuCtxSynchronize()
            results.append((seen, words[:3]))
    return results


def functions_come_and_go_while_all_is_waited_for(cuda: Cuda, turns: int) -> int:
    """Another thread gives a stream functions that count in shared memory: how many counts are lost."""
    size = 1 << 18
    address = shared(cuda, "mapped", size)
    words: Words = (c_uint * (size // 4)).from_address(address)
    add, context = adder(cuda, address), cuda.new("cuCtxGetCurrent")
    stream, called, ends = cuda.new("cuStreamCreate", NON_BLOCKING), threading.Semaphore(0), threading.Event()

    def count(_: int) -> None:
        words[-1] += 1
        called.release()

    function, given = HOST_FUNCTION(count), 0

    def gives() -> None:
        nonlocal given
        cuda.cuCtxSetCurrent(context)
        while not ends.is_set():
            cuda.cuLaunchHostFunc(stream, function, None)
            assert called.acquire(timeout=60)
            given += 1

    thread = threading.Thread(target=gives)
    thread.start()
    for _ in range(turns):
        add(0)
        cuda.cuCtxSynchronize()
    ends.set()
    thread.join()
    cuda.cuCtxSynchronize()
    lost = given - words[-1]
    assert words[:COUNT] == [turns] * COUNT
    cuda.cuMemFreeHost(address)
    return lost


def waits_behind_a_thread_that_looked(cuda: Cuda) -> list[int]:
    """Of the program for replies, when all that was shared is the host's again."""
    address, context = shared(cuda, "mapped", 4096), cuda.new("cuCtxGetCurrent")
    add, traffic = adder(cuda, address), (c_uint64 * 3)()
    stream, busy, flag = *(cuda.new("cuStreamCreate", NON_BLOCKING) for _ in range(2)), cuda.alloc(64)
    cuda.write(flag, bytes(64))
    cuda.cuStreamWaitValue32_v2(busy, flag, 1, EQUAL)
    add(stream)

    def looks() -> None:
        cuda.cuCtxSetCurrent(context)
        cuda.cuStreamSynchronize(stream)

    thread = threading.Thread(target=looks)
    thread.start()
    thread.join()
    cuda.cuStreamWriteValue32_v2(stream, flag, 1, 0)
    waits = []
    for _ in range(4):
        cuda.cuCtxSynchronize()
        cuda.library.gkTraffic(traffic)
        waits.append(traffic[2])
    return [after - before for before, after in itertools.pairwise(waits)]


def a_function_waits_for_a_launch_while_a_copy_waits_for_it(cuda: Cuda, kind: str) -> list[int]:
    """The copy brings shared memory back; the launch is of another thread, and uses the memory."""
    address, plain, context = shared(cuda, kind, 4096), cuda.alloc(64), cuda.new("cuCtxGetCurrent")
    words: Words = (c_uint * 1024).from_address(address)
    words[:] = [5] * 1024
    add, begun, launched = adder(cuda, address), threading.Event(), threading.Event()
    stream, other = (cuda.new("cuStreamCreate", NON_BLOCKING) for _ in range(2))

    def look(_: int) -> None:
        begun.set()
        launched.wait(60)

    def launches() -> None:
        cuda.cuCtxSetCurrent(context)
        time.sleep(0.3)
        add(stream)
        launched.set()

    function, thread = HOST_FUNCTION(look), threading.Thread(target=launches)
    add(stream)
    cuda.cuLaunchHostFunc(other, function, None)
    assert begun.wait(60)
    thread.start()
    cuda.cuMemcpyDtoD_v2(plain, plain + 32, 32)
    thread.join()
    cuda.cuCtxSynchronize()
    return words[COUNT - 1 : COUNT + 1]


def a_function_comes_and_goes_while_memory_goes_to_the_device(cuda: Cuda, kind: str) -> list[int]:
    """It begins when a kernel has ended, and the copy before the launch waits for it."""
    stream, other = (cuda.new("cuStreamCreate", NON_BLOCKING) for _ in range(2))
    blocking, event = cuda.new("cuStreamCreate", 0), cuda.new("cuEventCreate", 2)
    plain, slow = cuda.alloc(64), cuda.kernel(cuda.load(SLOW), "slow")
    assert cuda.launch(slow, stream=stream) == 0
    address = shared(cuda, kind, 4096)
    words: Words = (c_uint * 1024).from_address(address)
    words[:] = [5] * 1024
    add = adder(cuda, address)

    def look(_: int) -> None:
        words[1] = 100

    function = HOST_FUNCTION(look)
    cuda.cuLaunchHostFunc(stream, function, None)
    cuda.cuEventRecord(event, stream)
    cuda.cuStreamWaitEvent(blocking, event, 0)
    cuda.write(plain, bytes(64))
    add(other)
    cuda.cuCtxSynchronize()
    return words[:3]


def fills_one_part_while_a_kernel_may_use_another(cuda: Cuda, kind: str) -> object:
    """Between two launches, and between a launch and a wait for all: with no wait in between."""
    size = 600_000
    address = shared(cuda, kind, size)
    words: Words = (c_uint * (size // 4)).from_address(address)
    words[:] = [5] * len(words)
    half, stream = len(words) // 2, cuda.new("cuStreamCreate", NON_BLOCKING)
    first, second = adder(cuda, address), adder(cuda, address + 4 * half)
    seen: list[object] = []
    for turn in range(1, 4):
        first(stream)
        words[half] = 100 * turn
        second(0)
        words[-1] = 1000 * turn
        cuda.cuCtxSynchronize()
        seen.append((words[0], words[half : half + 2], words[-1]))
    return seen


def threads_work_on_parts_of_their_own(cuda: Cuda, kind: str, turns: int) -> list[str]:
    """Each writes to its part, has a kernel add to it, and waits: for all of the device, or its stream."""
    threads, size, wrong = 3, 16_384, []
    address, context = shared(cuda, kind, size), cuda.new("cuCtxGetCurrent")
    words: Words = (c_uint * (size // 4)).from_address(address)
    part = len(words) // threads

    def works(number: int) -> None:
        cuda.cuCtxSetCurrent(context)
        stream, begin = cuda.new("cuStreamCreate", NON_BLOCKING), number * part
        add = adder(cuda, address + 4 * begin)
        for turn in range(turns):
            words[begin] = words[begin + part - 1] = 10 * turn
            add(stream)
            if number == 0:
                cuda.cuCtxSynchronize()
            else:
                cuda.cuStreamSynchronize(stream)
            seen = words[begin], words[begin + 1], words[begin + part - 1]
            if seen != (10 * turn + 1, turn + 1, 10 * turn):
                wrong.append(f"thread {number}, turn {turn}: {seen}")

    running = [threading.Thread(target=works, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return wrong


def a_wait_for_one_stream_shows_its_work(cuda: Cuda, kind: str) -> object:
    """Another stream has still work to do all the while: it waits for a value that comes at the end."""
    size = 8192
    address, flag = shared(cuda, kind, size), cuda.alloc(64)
    cuda.write(flag, bytes(64))
    words: Words = (c_uint * (size // 4)).from_address(address)
    words[:] = list(range(size // 4))
    add = adder(cuda, address)
    stream, busy, writer = (cuda.new("cuStreamCreate", NON_BLOCKING) for _ in range(3))
    event = cuda.new("cuEventCreate", 2)
    cuda.cuStreamWaitValue32_v2(busy, flag, 1, EQUAL)
    seen: list[object] = []

    def polled(name: str, handle: int) -> int:
        deadline = time.monotonic() + 60
        while (code := cuda.code(name, handle)) == NOT_READY and time.monotonic() < deadline:
            time.sleep(0.001)
        return code

    waits: tuple[tuple[Callable[[str, int], int], str, int], ...] = (
        (cuda.code, "cuStreamSynchronize", stream),
        (polled, "cuStreamQuery", stream),
        (cuda.code, "cuEventSynchronize", event),
        (polled, "cuEventQuery", event),
    )
    for wait, name, handle in waits:
        add(stream)
        cuda.cuEventRecord(event, stream)
        seen.append((wait(name, handle), words[:3], words[-1], cuda.code("cuStreamQuery", busy)))
        words[0] = 500 * len(seen)
        words[-1] += 1
    add(busy)
    cuda.cuStreamWriteValue32_v2(writer, flag, 1, 0)
    cuda.cuCtxSynchronize()
    seen.append((words[:3], words[-1]))
    words[2] = 9
    add(stream)
    cuda.cuCtxSynchronize()
    return [*seen, words[:3], words[-1]]


def a_copy_elsewhere_leaves_shared_memory_to_the_host(cuda: Cuda, kind: str) -> object:
    """Copies and fills of other memory between what the host writes, and copies to shared memory."""
    address, plain = shared(cuda, kind, 4096), cuda.alloc(4096)
    words: Words = (c_uint * 1024).from_address(address)
    add = adder(cuda, address)
    seen: list[object] = []
    for turn in range(1, 4):
        words[0] = 10 * turn
        cuda.write(plain, bytes([turn]) * 64)
        words[1] = 20 * turn
        cuda.cuMemsetD8_v2(plain, turn, 32)
        words[2] = 30 * turn
        add(0)
        seen.append(cuda.read(plain, 4))
        seen.append(words[:3])
    cuda.write(address + 4, (77).to_bytes(4, "little"))
    seen.append(words[:3])
    cuda.cuMemsetD32_v2(address + 8, 88, 1)
    seen.append(words[:3])
    cuda.cuMemcpyDtoD_v2(address, plain, 4)
    cuda.cuCtxSynchronize()  # such a copy may return before it is done
    return [*seen, words[:3]]


READ_MOSTLY, NO_READ_MOSTLY, PREFERRED, NOT_PREFERRED, ACCESSED, NOT_ACCESSED = range(1, 7)
HOST, INVALID, PAGE = -1, -2, 4096


class Location(ctypes.Structure):
    _fields_ = (("kind", c_int), ("id", c_int))


def asked(cuda: Cuda, attribute: int, address: int, size: int, numbers: int = 1) -> list[int]:
    values = (c_int * numbers)(*[77] * numbers)
    cuda.cuMemRangeGetAttribute(values, 4 * numbers, attribute, address, size)
    return list(values)


def advice_is_kept(cuda: Cuda) -> object:
    size = 16 * PAGE
    base, stream = int(cuda.new("cuMemAllocManaged", size, 1)), cuda.new("cuStreamCreate", 0)
    seen = [[asked(cuda, attribute, base, size, 3 if attribute == 3 else 1) for attribute in range(1, 9)]]
    cuda.cuMemAdvise(base + PAGE, PAGE + 1, READ_MOSTLY, 0)
    seen.append([asked(cuda, 1, *range_) for range_ in ((base, size), (base + PAGE, 2 * PAGE), (base, 5))])
    cuda.cuMemAdvise(base + PAGE, 5, NO_READ_MOSTLY, 0)
    seen.append([asked(cuda, 1, *range_) for range_ in ((base + PAGE, PAGE), (base + 2 * PAGE, PAGE))])
    cuda.cuMemAdvise(base, size, PREFERRED, 0)
    seen.append([asked(cuda, attribute, base, size) for attribute in (2, 5, 6)])
    cuda.cuMemAdvise(base, PAGE, PREFERRED, HOST)
    seen.append([asked(cuda, attribute, base, PAGE) for attribute in (2, 5)] + [asked(cuda, 2, base, size)])
    cuda.cuMemAdvise(base, size, NOT_PREFERRED, 0)
    seen.append([asked(cuda, 2, base, PAGE)])
    cuda.cuMemAdvise(base, size, ACCESSED, HOST)
    cuda.cuMemAdvise(base, size // 2, ACCESSED, 0)
    seen.append([sorted(asked(cuda, 3, base, size // 2, 3)), asked(cuda, 3, base, size, 3)])
    cuda.cuMemAdvise(base, size, NOT_ACCESSED, HOST)
    seen.append([asked(cuda, 3, base, size // 2), asked(cuda, 3, base, size)])
    cuda.cuMemPrefetchAsync(base, size, 0, stream)
    seen.append([asked(cuda, attribute, base, size) for attribute in (4, 7, 8)])
    cuda.cuMemPrefetchAsync(base + PAGE, 1, HOST, stream)
    seen.append([asked(cuda, 4, base, size), asked(cuda, 4, base + PAGE, PAGE)])
    several, sizes = (c_int * 2)(), (c_size_t * 2)(4, 4)
    pointers = (c_void_p * 2)(ctypes.addressof(several), ctypes.addressof(several) + 4)
    cuda.cuMemRangeGetAttributes(pointers, sizes, (c_int * 2)(1, 4), 2, base + 2 * PAGE, PAGE)
    seen.append([list(several)])
    cuda.cuMemFree_v2(base)
    return seen


def wrong_questions_about_ranges(cuda: Cuda) -> list[int]:
    base, plain, value = int(cuda.new("cuMemAllocManaged", PAGE, 1)), cuda.alloc(PAGE), (c_int * 2)()

    def ask(size: int, attribute: int, address: int, count: int) -> int:
        return cuda.code("cuMemRangeGetAttribute", value, size, attribute, address, count)

    return [
        ask(4, 1, plain, PAGE),
        ask(8, 1, base, PAGE),
        ask(0, 3, base, PAGE),
        ask(6, 3, base, PAGE),
        ask(4, 9, base, PAGE),
        ask(4, 1, base, PAGE + 1),
        ask(4, 1, base, 0),
        cuda.code("cuMemRangeGetAttribute", None, 4, 1, base, PAGE),
        cuda.code("cuMemRangeGetAttributes", None, None, None, 0, base, PAGE),
        cuda.code("cuMemAdvise", base, PAGE, 9, 0),
        cuda.code("cuMemAdvise", plain, PAGE, READ_MOSTLY, 0),
        cuda.code("cuMemAdvise", base, PAGE, PREFERRED, 5),
        cuda.code("cuMemPrefetchAsync", base, PAGE, -7, 0),
        cuda.code("cuMemPrefetchAsync", base, 2 * PAGE, 0, 0),
    ]
