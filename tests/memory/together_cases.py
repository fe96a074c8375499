"""What the tests of memory that host and kernels use at the same time do with a driver."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from ctypes import c_uint, c_uint64
from pathlib import Path

from tests.softgpu.driver.raw import NON_BLOCKING, Cuda

SIZE = 4 * 4096
GEQ = 0
PATIENCE_S = 60.0
KERNELS = """
.version 7.5
.target sm_75
.address_size 64
// Waits until the first word is `value`, then makes the second that value and one more.
.visible .entry latch(.param .u64 words, .param .u32 value) {
    .reg .u64 %a; .reg .u32 %v, %w; .reg .pred %p;
    ld.param.u64 %a, [words]; ld.param.u32 %w, [value];
again:
    ld.volatile.global.u32 %v, [%a];
    setp.ne.u32 %p, %v, %w;
    @%p bra again;
    add.u32 %v, %v, 1;
    st.volatile.global.u32 [%a+4], %v;
    ret;
}
// Counts in the first word, and waits after each number until the second one is the same.
.visible .entry count(.param .u64 words, .param .u32 end) {
    .reg .u64 %a; .reg .u32 %i, %n, %v; .reg .pred %p;
    ld.param.u64 %a, [words]; ld.param.u32 %n, [end];
    mov.u32 %i, 0;
next:
    add.u32 %i, %i, 1;
    st.volatile.global.u32 [%a], %i;
    membar.sys;
again:
    ld.volatile.global.u32 %v, [%a+4];
    setp.ne.u32 %p, %v, %i;
    @%p bra again;
    setp.lt.u32 %p, %i, %n;
    @%p bra next;
    ret;
}
// Adds 1 to the first word, `times` times, a thread.
.visible .entry add(.param .u64 words, .param .u32 times) {
    .reg .u64 %a; .reg .u32 %i, %n; .reg .pred %p;
    ld.param.u64 %a, [words]; ld.param.u32 %n, [times];
    mov.u32 %i, 0;
again:
    red.sys.global.add.u32 [%a], 1;
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, %n;
    @%p bra again;
    ret;
}
"""
ADDER = """
#include <stdint.h>
void add(uint32_t* word, uint32_t times) {
    while (times--) __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
}
"""
Words = ctypes.Array[c_uint]


class Together:
    """Memory of a kind, as words, and kernels that use it."""

    def __init__(self, cuda: Cuda, kind: str) -> None:
        self.cuda, self.kind, self.module = cuda, kind, cuda.load(KERNELS)
        if kind == "managed":
            self.address = int(cuda.new("cuMemAllocManaged", SIZE, 1))
        else:
            self.address = int(cuda.new("cuMemHostAlloc", SIZE, 2 if kind == "mapped" else 0))
        if kind == "mapped":
            assert cuda.new("cuMemHostGetDevicePointer_v2", self.address, 0) == self.address
        self.words: Words = (c_uint * (SIZE // 4)).from_address(self.address)
        self.words[:] = [0] * (SIZE // 4)
        self.stream = cuda.new("cuStreamCreate", NON_BLOCKING)

    def launch(self, name: str, number: int, block: int = 1) -> None:
        kernel = self.cuda.kernel(self.module, name)
        arguments = (c_uint64(self.address), c_uint(number))
        assert self.cuda.launch(kernel, *arguments, block=(block, 1, 1), stream=self.stream) == 0

    def wait(self) -> None:
        self.cuda.cuStreamSynchronize(self.stream)

    def end(self) -> None:
        self.cuda.cuStreamDestroy_v2(self.stream)
        if self.kind == "managed":
            self.cuda.cuMemFree_v2(self.address)
        else:
            self.cuda.cuMemFreeHost(self.address)
        self.cuda.cuModuleUnload(self.module)


def is_soon(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            return False
    return True


def a_kernel_waits_for_the_host(cuda: Cuda, kind: str) -> object:
    """The host writes beside the word that the kernel waits for, too."""
    memory = Together(cuda, kind)
    memory.launch("latch", 41)
    memory.words[100] = 5
    memory.words[0] = 41
    memory.wait()
    seen = memory.words[:3], memory.words[100]
    memory.end()
    return seen


def the_host_watches_a_kernel(cuda: Cuda, kind: str) -> object:
    memory, seen = Together(cuda, kind), []
    memory.launch("count", 5)
    for number in range(1, 6):
        assert is_soon(lambda number=number: memory.words[0] >= number)  # type: ignore[misc]
        seen.append(memory.words[0])
        memory.words[1] = number
    memory.wait()
    memory.end()
    return seen


@functools.cache
def adder() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "adder.c", Path(folder) / "adder.so"
        source.write_text(ADDER)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
        return ctypes.CDLL(str(library))


def both_add_to_one_word(cuda: Cuda, kind: str, times: int) -> object:
    memory = Together(cuda, kind)
    hosts = [
        threading.Thread(target=adder().add, args=(ctypes.c_void_p(memory.address), c_uint(times)))
        for _ in range(2)
    ]
    memory.launch("add", times, block=2)
    for host in hosts:
        host.start()
    for host in hosts:
        host.join()
    memory.wait()
    seen = memory.words[:2]
    memory.end()
    return seen


def a_copy_takes_what_is_there_when_it_runs(cuda: Cuda, kind: str) -> object:
    memory, device = Together(cuda, kind), cuda.alloc(64)
    memory.launch("latch", 1)
    cuda.cuMemcpyAsync(device, memory.address + 1024, 64, memory.stream)
    memory.words[256] = 33
    memory.words[0] = 1
    memory.wait()
    seen = cuda.read(device, 4)
    cuda.cuMemFree_v2(device)
    memory.end()
    return seen


def a_copy_back_is_there_when_it_has_run(cuda: Cuda, kind: str) -> object:
    """Another stream's kernel goes on meanwhile: a copy waits for its own stream alone."""
    memory, device, other = Together(cuda, kind), cuda.alloc(64), cuda.new("cuStreamCreate", NON_BLOCKING)
    cuda.write(device, bytes(range(64)))
    memory.launch("latch", 1)
    seen: list[object] = []
    cuda.cuMemcpyDtoH_v2(memory.address + 64, device, 64)
    seen.append(memory.words[16:32])
    cuda.cuMemsetD32_v2(memory.address + 128, 9, 4)
    seen.append(memory.words[32:37])
    cuda.cuMemcpyHtoD_v2(memory.address + 256, bytes(range(100, 164)), 64)
    seen.append(memory.words[64:80])
    cuda.cuMemcpyAsync(memory.address + 512, device, 64, other)
    cuda.cuStreamSynchronize(other)
    seen.append(memory.words[128:144])
    cuda.cuMemcpyHtoD_v2(device, memory.address + 64, 64)
    memory.words[16] = 0
    seen.append(cuda.read(device, 4))
    memory.words[0] = 1
    memory.wait()
    cuda.cuMemFree_v2(device)
    cuda.cuStreamDestroy_v2(other)
    memory.end()
    return seen


def a_stream_waits_for_a_value(cuda: Cuda, kind: str) -> object:
    memory = Together(cuda, kind)
    code = cuda.code("cuStreamWaitValue32_v2", memory.stream, memory.address, c_uint(7), c_uint(GEQ))
    if code:
        memory.end()
        return code
    memory.launch("add", 3)
    time.sleep(0.05)
    seen = [memory.words[0]]
    memory.words[0] = 7
    memory.wait()
    seen.append(memory.words[0])
    memory.end()
    return seen


def a_child_has_what_is_pinned_for_itself(cuda: Cuda, kind: str) -> object:
    memory = Together(cuda, kind)
    memory.words[0], memory.words[5] = 1, 55
    memory.launch("latch", 1)
    memory.wait()
    child = os.fork()
    if child == 0:
        right = memory.words[1] == 2 and memory.words[5] == 55
        memory.words[5] = 66
        os._exit(0 if right and memory.words[5] == 66 else 1)
    seen = os.waitpid(child, 0)[1], memory.words[5]
    memory.end()
    return seen


def more_than_may_be_shared_is_as_good(cuda: Cuda, many: int) -> object:
    """Each of many allocations is used by a kernel, and freed."""
    all_of_it = [Together(cuda, "pinned") for _ in range(many)]
    for memory in all_of_it:
        memory.words[0] = 7
        memory.launch("add", 2)
    cuda.cuCtxSynchronize()
    seen = {memory.words[0] for memory in all_of_it}
    for memory in all_of_it:
        memory.end()
    return seen


def more_managed_memory_than_has_places(cuda: Cuda, many: int) -> object:
    addresses = [cuda.new("cuMemAllocManaged", 4096, 1) for _ in range(many)]
    kernel, seen = cuda.kernel(cuda.load(KERNELS), "add"), []
    for address in (addresses[0], addresses[-1]):
        word = c_uint.from_address(address)
        word.value = 5
        assert cuda.launch(kernel, c_uint64(address), c_uint(3)) == 0
        cuda.cuCtxSynchronize()
        seen.append(word.value)
    for address in addresses:
        cuda.cuMemFree_v2(address)
    return seen


def a_kernel_reaches_no_further_than_the_memory(cuda: Cuda, size: int) -> object:
    """Ends the context."""
    host = cuda.new("cuMemHostAlloc", size, 0)
    kernel = cuda.kernel(cuda.load(KERNELS), "add")
    codes = []
    for address in (host + size - 4, host + size):
        assert cuda.launch(kernel, c_uint64(address), c_uint(3)) == 0
        codes.append(cuda.code("cuCtxSynchronize"))
    return codes


def attributes(cuda: Cuda, numbers: tuple[int, ...]) -> object:
    return [cuda.new("cuDeviceGetAttribute", number, 0, kind=ctypes.c_int) for number in numbers]


MIX = """
.version 7.5
.target sm_75
.address_size 64
// Each of the words from `words` on becomes three times itself, and `more`.
.visible .entry mix(.param .u64 words, .param .u32 more) {
    .reg .u64 %a, %o; .reg .u32 %i, %v, %m, %t; .reg .pred %p;
    ld.param.u64 %a, [words]; ld.param.u32 %m, [more];
    mov.u32 %t, 0;
again:
    add.u32 %t, %t, 1;
    setp.lt.u32 %p, %t, 2000;
    @%p bra again;
    mov.u32 %i, %tid.x;
    mul.wide.u32 %o, %i, 4;
    add.u64 %a, %a, %o;
    ld.global.u32 %v, [%a];
    mad.lo.u32 %v, %v, 3, %m;
    st.global.u32 [%a], %v;
    ret;
}
"""


class Mixed:
    """Runs what CUDA allows of a list of operations, on words that host and two streams use: the host touches
    no word that work under way touches, and, unless it works ``beside``, nothing while there is any."""

    def __init__(self, cuda: Cuda, kind: str, beside: bool) -> None:
        self.cuda, self.beside = cuda, beside
        self.memory = Together(cuda, kind)
        self.kernel = cuda.kernel(cuda.load(MIX), "mix")
        self.streams = [cuda.new("cuStreamCreate", NON_BLOCKING) for _ in range(2)]
        self.busy: list[set[int]] = [set(), set()]
        self.seen: list[int] = []

    def may(self, words: set[int], stream: int | None = None) -> bool:
        others = [busy for i, busy in enumerate(self.busy) if i != stream]
        if stream is None and not self.beside and any(others):
            return False
        return not any(words & busy for busy in others)

    def at(self, word: int) -> int:
        return self.memory.address + 4 * word

    def launch(self, stream: int, first: int, count: int, more: int) -> None:
        words = set(range(first, first + count))
        if self.may(words, stream):
            arguments = c_uint64(self.at(first)), c_uint(more)
            block = (count, 1, 1)
            assert not self.cuda.launch(self.kernel, *arguments, block=block, stream=self.streams[stream])
            self.busy[stream] |= words

    def copy(self, stream: int, first: int, count: int, to: int) -> None:
        words = {*range(first, first + count), *range(to, to + count)}
        if self.may(words, stream) and len(words) == 2 * count:
            self.cuda.cuMemcpyAsync(self.at(to), self.at(first), 4 * count, self.streams[stream])
            self.busy[stream] |= words

    def wait(self, stream: int, *_: int) -> None:
        self.cuda.cuStreamSynchronize(self.streams[stream])
        self.busy[stream].clear()

    def wait_for_all(self, *_: int) -> None:
        self.cuda.cuCtxSynchronize()
        self.busy = [set(), set()]

    def write(self, _: int, first: int, count: int, value: int) -> None:
        if self.may(set(range(first, first + count))):
            self.memory.words[first : first + count] = [value + i for i in range(count)]

    def read(self, _: int, first: int, count: int, __: int) -> None:
        if self.may(set(range(first, first + count))):
            self.seen += self.memory.words[first : first + count]

    def fill(self, _: int, first: int, count: int, value: int) -> None:
        if self.may(set(range(first, first + count))):
            self.cuda.cuMemsetD32_v2(self.at(first), c_uint(value), count)

    def fetch(self, _: int, first: int, count: int, __: int) -> None:
        if self.may(set(range(first, first + count))):
            data = self.cuda.read(self.at(first), 4 * count)
            self.seen += memoryview(data).cast("I").tolist()

    def end(self) -> list[int]:
        self.wait_for_all()
        self.seen += self.memory.words[:64]
        for stream in self.streams:
            self.cuda.cuStreamDestroy_v2(stream)
        self.memory.end()
        return self.seen


def runs(cuda: Cuda, kind: str, beside: bool, program: list[tuple[str, int, int, int, int]]) -> list[int]:
    mixed = Mixed(cuda, kind, beside)
    for name, *numbers in program:
        getattr(mixed, name)(*numbers)
    return mixed.end()
