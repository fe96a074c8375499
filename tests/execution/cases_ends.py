"""What the tests of sessions that end beside others do with a driver."""

from __future__ import annotations

import threading
import time

from tests.softgpu.driver import ptx
from tests.softgpu.driver.raw import NON_BLOCKING, Cuda

BYTES, EQUAL = 8 << 20, 1


def never_end(cuda: Cuda, in_default_stream: bool) -> int:
    spin = cuda.kernel(cuda.load(ptx.HEADER + ptx.SPIN), "spin")
    stream = 0 if in_default_stream else cuda.new("cuStreamCreate", NON_BLOCKING)
    cuda.launch(spin, stream=stream)
    return cuda.code("cuStreamQuery", stream)


def work_in_all_streams(cuda: Cuda) -> None:
    """Without waiting for its end; it is all submitted when this returns."""
    to = cuda.alloc(BYTES)
    gone, stays = (cuda.new("cuStreamCreate", NON_BLOCKING) for _ in range(2))
    cuda.cuMemsetD8Async(to, 1, BYTES, gone)
    cuda.cuStreamDestroy_v2(gone)
    cuda.cuMemsetD8Async(to, 2, BYTES, stays)
    cuda.cuMemsetD8_v2(to, 3, BYTES)
    cuda.cuMemsetD8_v2_ptds(to, 4, BYTES)
    cuda.free_bytes()


def whole_life_of_a_context(cuda: Cuda) -> None:
    context = cuda.new("cuCtxCreate_v2", 0, 0)
    work_in_all_streams(cuda)
    cuda.cuCtxDestroy_v2(context)


def free_bytes(cuda: Cuda) -> int:
    return cuda.free_bytes()


def wait_while_streams_go(cuda: Cuda) -> int:
    """Another thread destroys some while this one waits for all of its work, and is at one of them."""
    context, flag = cuda.new("cuCtxGetCurrent"), cuda.alloc(64)
    cuda.write(flag, bytes(64))
    before, waits, after, writer = (cuda.new("cuStreamCreate", NON_BLOCKING) for _ in range(4))
    cuda.cuStreamWaitValue32_v2(waits, flag, 1, EQUAL)

    def ends_them() -> None:
        cuda.cuCtxSetCurrent(context)
        time.sleep(0.3)
        cuda.cuStreamDestroy_v2(before)
        cuda.cuStreamDestroy_v2(after)
        cuda.cuStreamWriteValue32_v2(writer, flag, 1, 0)

    thread = threading.Thread(target=ends_them)
    thread.start()
    code = cuda.code("cuCtxSynchronize")
    thread.join()
    return code
