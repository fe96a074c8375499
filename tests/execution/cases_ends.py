"""What the tests of sessions that end beside others do with a driver."""

from __future__ import annotations

from tests.softgpu.driver import ptx
from tests.softgpu.driver.raw import NON_BLOCKING, Cuda

BYTES = 8 << 20


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
