"""Sessions of a lease share a context a GPU: a wait is for one's own work, all of it and no other."""

from __future__ import annotations

import ast
import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native_build import Build, build

from .driver_api import OUT_OF_MEMORY
from .minimal_agent import MinimalAgent, uuid_of
from .recorded import Client
from .test_hostile_frames import LAUNCH, LIBRARY, LOAD, STREAM, RawLane, handle, opcodes

__all__ = ["opcodes"]

# A stream is held by a value that it waits for, until `go_on` writes it.
PRELUDE = """
import time
c = Cuda()
contexts = [c.out("cuDevicePrimaryCtxRetain", INT(i)) for i in (0, 1)]
BLOCKING, NON_BLOCKING, LEGACY, OF_THREAD = 0, 1, 0, 2
class Gpu:
    def __init__(self, context):
        self.context = context
        self.use()
        self.writer = self.stream(NON_BLOCKING)
        self.flags = iter(range(c.allocate(4096), 1 << 62, 4))
        c.copy_in(next(self.flags), bytes(4096))
    def use(self):
        c.call("cuCtxSetCurrent", U64(self.context))
    def stream(self, flags):
        return c.out("cuStreamCreate", UINT(flags))
    def hold(self, stream):
        flag = next(self.flags)
        c.call("cuStreamWaitValue32_v2", U64(stream), U64(flag), UINT(1), UINT(0))
        return flag
    def go_on(self, flag):
        c.call("cuStreamWriteValue32_v2", U64(self.writer), U64(flag), UINT(1), UINT(0))
    def query(self):
        return c.status("cuStreamQuery", U64(LEGACY))
    def work(self, stream):
        c.call("cuMemsetD8Async", U64(next(self.flags)), ctypes.c_ubyte(0), SIZE(4), U64(stream))
def end(stream):
    c.call("cuStreamDestroy_v2", U64(stream))
class Wait:
    "In a thread of its own, begun when this returns."
    def __init__(self, gpu, name, *arguments):
        def run():
            gpu.use()
            self.status = c.status(name, *arguments)
        self.status = None
        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        time.sleep(0.2)
    def lasts(self):
        time.sleep(0.1)
        return self.status is None
    def result(self):
        self.thread.join(10)
        return self.status
one, other = Gpu(contexts[1]), Gpu(contexts[0])
gpu = other
"""


@pytest.fixture
def two_gpus(tmp_path: Path, native: Build) -> Iterator[Client]:
    """Two GPUs, and another session: it only makes the program not the only one."""
    build(native.folder, "softgpu")
    environment = {
        "GPU_KERNELS_SOFTGPU_MEMORY_MIB": "32,32",
        "GPU_KERNELS_SOFTGPU_UUID": f"{uuid_of(0)},{uuid_of(1)}",
    }
    driver = native.folder / "softgpu" / "libcuda.so.1"
    with MinimalAgent(
        tmp_path, native.worker, driver, mib=32, further_mib=(32,), environment=environment
    ) as agent:
        lane = RawLane(agent)
        yield Client(agent, native)
        lane.socket.close()


WHAT_IS_SEEN = {
    "a stream that was destroyed is waited for with its context, and where it blocks by the default stream": (
        """
for flags in (NON_BLOCKING, BLOCKING):
    stream = gpu.stream(flags)
    flag = gpu.hold(stream)
    end(stream)
    wait = Wait(gpu, "cuCtxSynchronize")
    seen += [gpu.query(), wait.lasts()]
    gpu.go_on(flag)
    seen += [wait.result(), gpu.query()]
""",
        [0, True, 0, 0, 600, True, 0, 0],
    ),
    "a stream that is destroyed while another GPU is current is waited for on its own alone": (
        """
one.use()
one.query()  # what it has had in the default stream is marked
stream = one.stream(BLOCKING)
flag = one.hold(stream)
other.use()
end(stream)
wait = Wait(other, "cuCtxSynchronize")
seen += [other.query(), wait.result()]
one.use()
seen.append(one.query())
one.go_on(flag)
seen += [c.status("cuCtxSynchronize"), one.query()]
other.use()
""",
        [0, 0, 600, 0, 0],
    ),
    "a stream that is destroyed during a wait is waited for": (
        """
for name, arguments in (("cuCtxSynchronize", ()), ("cuStreamSynchronize", (U64(LEGACY),))):
    stream = gpu.stream(BLOCKING)
    flag = gpu.hold(stream)
    wait = Wait(gpu, name, *arguments)
    end(stream)
    seen.append(wait.lasts())
    gpu.go_on(flag)
    seen.append(wait.result())
""",
        [True, 0, True, 0],
    ),
    "what is submitted after a wait has begun is not waited for": (
        """
streams = [gpu.stream(NON_BLOCKING) for _ in range(8)]
gpu.work(LEGACY)
gpu.work(OF_THREAD)
first = [gpu.hold(stream) for stream in streams[:4]]
wait = Wait(gpu, "cuCtxSynchronize")
later = [gpu.hold(stream) for stream in [*streams, OF_THREAD, LEGACY]]
gpu.query()  # marks the default stream anew
for flag in first:
    gpu.go_on(flag)
seen.append(wait.result())
seen.append(gpu.query())
for flag in later:
    gpu.go_on(flag)
seen += [c.status("cuCtxSynchronize"), gpu.query()]
""",
        [0, 600, 0, 0],
    ),
}


def test_a_wait_is_for_ones_own_work(two_gpus: Client) -> None:
    """One program after the other's setting up: each case leaves nothing behind."""
    cases = "".join(
        f"seen = []\n{program}\nprint(repr(({name!r}, seen)), flush=True)\n"
        for name, (program, _) in WHAT_IS_SEEN.items()
    )
    out = two_gpus.run(PRELUDE + cases + "os._exit(0)\n")
    found = dict(ast.literal_eval(line) for line in out.stdout.splitlines())
    assert found == {name: seen for name, (_, seen) in WHAT_IS_SEEN.items()}, out.stderr


def loaded(lane: RawLane, text: bytes) -> RawLane:
    """The recording driver's image, as the session's first library."""
    digest = hashlib.blake2b(text, digest_size=32).digest()
    head = struct.pack("<Q32sQIIII", handle(LIBRARY, 0), digest, len(text), 1, 0, 0, 0)
    assert lane.ask(LOAD, head + text)[0] == 0
    return lane


def launch(kernel: int, stream: int = 0) -> bytes:
    return struct.pack("<QQIIIIIIIIII", handle(LIBRARY, 0), stream, kernel, 1, 1, 1, 1, 1, 1, 0, 0, 0)


def test_a_mark_that_cannot_be_made_is_no_wait_for_others(
    agent: MinimalAgent, opcodes: dict[str, int], record: Path
) -> None:
    lane, other = loaded(RawLane(agent), b"entry full\n"), RawLane(agent)
    stream = handle(STREAM, 0)
    lane.post(opcodes["cuStreamCreateWithPriority"], struct.pack("<QIi", stream, 1, 0))
    lane.post(LAUNCH, launch(0, stream))
    assert lane.ask(opcodes["cuCtxSynchronize"])[0] == OUT_OF_MEMORY
    lane.post(opcodes["cuStreamDestroy_v2"], struct.pack("<Q", stream))  # is waited for, by itself
    assert other.ask(opcodes["cuStreamQuery"], struct.pack("<Q", 2))[0] == 0
    assert "cuCtxSynchronize" not in record.read_text()


ENDS = {"an array": ("cuArrayDestroy", "array"), "a texture": ("cuTexObjectDestroy", "texture")}


@pytest.mark.parametrize("what", ENDS)
def test_what_is_destroyed_waits_for_the_gpu_that_it_is_on(two_gpus: Client, what: str) -> None:
    """Whichever is the thread's."""
    name, which = ENDS[what]
    out = two_gpus.check(
        PRELUDE
        + f"""
one.use()
array = c.out("cuArrayCreate_v2", ctypes.byref((U64 * 3)(16, 8, 1 << 32 | 32)))
found, sampling = (U64 * 18)(0, array), (U64 * 13)()
texture = c.out("cuTexObjectCreate", found, sampling, None)
go = threading.Event()
held = ctypes.CFUNCTYPE(None, POINTER)(lambda _: go.wait(30) and None)
c.call("cuLaunchHostFunc", U64(one.stream(NON_BLOCKING)), held, None)
other.use()
c.call("{name}", U64({which}))
wait = Wait(other, "cuMemGetInfo_v2", ctypes.byref(U64()), ctypes.byref(U64()))
lasts = wait.lasts()
go.set()
print(lasts, wait.result(), flush=True)
os._exit(0)
"""
    )
    assert out == "True 0\n"
