"""What the tests of shared memory do with a driver that refuses copies, as often as a file says, or waits."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from ctypes import c_uint, c_uint64
from pathlib import Path

from tests.softgpu.driver.raw import HOST_FUNCTION, NON_BLOCKING, Cuda

from .host_view_cases import COUNT, Words, adder, shared
from .shared_cases import KERNELS

SIZE = 600_000


def refuse(file: str, copies: int) -> None:
    """The driver looks at the file at each copy."""
    Path(file).write_text(f"{copies:<9}")


def of_fives(cuda: Cuda, kind: str) -> tuple[Words, int]:
    address = shared(cuda, kind, SIZE)
    words: Words = (c_uint * (SIZE // 4)).from_address(address)
    words[:] = [5] * len(words)
    return words, address


def launcher(cuda: Cuda, address: int) -> Callable[[int], int]:
    """Adds one to the first words, in a stream: the code of the launch."""
    kernel = cuda.kernel(cuda.load(KERNELS), "add_one")
    return lambda stream: cuda.launch(
        kernel, c_uint64(address), c_uint(COUNT), block=(COUNT, 1, 1), stream=stream
    )


def a_launch_whose_memory_cannot_be_sent(cuda: Cuda, kind: str, file: str) -> object:
    words, address = of_fives(cuda, kind)
    launch = launcher(cuda, address)
    refuse(file, 1)
    codes = [launch(0)]
    words[0] = 50
    codes += [launch(0), cuda.code("cuCtxSynchronize")]
    return codes, words[:2], words[COUNT], words[-1]


def a_launch_that_cannot_send_what_has_changed(cuda: Cuda, kind: str, file: str) -> object:
    words, address = of_fives(cuda, kind)
    launch, stream = launcher(cuda, address), cuda.new("cuStreamCreate", NON_BLOCKING)
    codes = [launch(stream), cuda.code("cuStreamSynchronize", stream)]
    words[1], words[-1] = 70, 80
    refuse(file, 1)
    codes += [launch(stream), launch(stream), cuda.code("cuCtxSynchronize")]
    return codes, words[:3], words[-1]


def a_function_whose_changes_cannot_be_sent(cuda: Cuda, kind: str, file: str) -> object:
    """The wait tells it, and the changes are there."""
    words, address = of_fives(cuda, kind)
    launch, stream = launcher(cuda, address), cuda.new("cuStreamCreate", NON_BLOCKING)

    def change(_: int) -> None:
        words[1], words[-1] = 70, 80
        refuse(file, 1)

    function = HOST_FUNCTION(change)
    codes = [launch(stream)]
    cuda.cuLaunchHostFunc(stream, function, None)
    waits = [cuda.code("cuStreamSynchronize", stream) for _ in range(2)]
    codes += [launch(stream), cuda.code("cuCtxSynchronize")]
    return codes, waits, words[:3], words[-1]


def waits_that_cannot_fetch(cuda: Cuda, kind: str, file: str) -> object:
    words, address = of_fives(cuda, kind)
    launch, stream = launcher(cuda, address), cuda.new("cuStreamCreate", NON_BLOCKING)
    seen: list[object] = []
    for wait, of in (("cuStreamSynchronize", (stream,)), ("cuCtxSynchronize", ())):
        launch(stream)
        refuse(file, 1)
        seen.append(([cuda.code(wait, *of) for _ in range(2)], words[:1], words[COUNT]))
    return seen


def a_copy_that_fails_before_another_brings_memory_back(cuda: Cuda, kind: str, file: str) -> object:
    """Their codes, and those of two waits: the error is told once, and by a wait."""
    words, address = of_fives(cuda, kind)
    launch, plain = launcher(cuda, address), cuda.alloc(128)
    data = ctypes.create_string_buffer(64)
    codes = [launch(0), cuda.code("cuCtxSynchronize"), launch(0)]
    refuse(file, 1)
    codes.append(cuda.code("cuMemcpyHtoDAsync_v2", plain, data, 64, 0))
    codes.append(cuda.code("cuMemcpyDtoD_v2", plain + 64, plain, 64))
    seen = words[0]
    return codes, seen, [cuda.code("cuCtxSynchronize") for _ in range(2)]


def a_function_ends_while_a_change_waits_behind_a_copy(cuda: Cuda, kind: str, launches: bool) -> list[int]:
    """What a launch sends waits for a copy, that for its stream, that for the function, and that for some
    time, or for another thread that launches."""
    address, plain = shared(cuda, kind, 4096), cuda.alloc(64)
    context = cuda.new("cuCtxGetCurrent")
    words: Words = (c_uint * 1024).from_address(address)
    words[:] = [5] * 1024
    add, add_behind = adder(cuda, address), adder(cuda, address + 4 * COUNT)
    begun, used = threading.Event(), threading.Event()
    stream, other, third = (cuda.new("cuStreamCreate", NON_BLOCKING) for _ in range(3))
    follows, event = cuda.new("cuStreamCreate", NON_BLOCKING), cuda.new("cuEventCreate", 2)

    def look(_: int) -> None:
        begun.set()
        used.wait(60)
        words[2] = 100

    def lets_it_go() -> None:
        cuda.cuCtxSetCurrent(context)
        time.sleep(0.3)
        if launches:
            add(third)
        used.set()

    function, thread = HOST_FUNCTION(look), threading.Thread(target=lets_it_go)
    add(stream)
    cuda.cuStreamSynchronize(stream)
    cuda.cuLaunchHostFunc(other, function, None)
    cuda.cuEventRecord(event, other)
    cuda.cuStreamWaitEvent(follows, event, 0)
    assert begun.wait(60)
    words[COUNT] = 50
    thread.start()
    cuda.cuMemcpyHtoDAsync_v2(plain, ctypes.create_string_buffer(64), 64, follows)
    add_behind(stream)
    cuda.cuCtxSynchronize()
    thread.join()
    return words[:2] + words[COUNT : COUNT + 2]
