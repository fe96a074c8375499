"""A program on a slice, with ctypes and the standard library alone: ``python -I -S kernel.py WHAT ...``.

``steps FILE``: every second a copy in, a launch, a copy out and a look at the result; a line in FILE for
each: when it ended and how many seconds it took. ``load MIB``: large PTX, again and again. ``bomb``: PTX that
is small and means much. It lives as long as its parent; a student's program ends with 1 at the first error,
an attacker's goes on.
"""

import ctypes
import itertools
import random
import signal
import sys
import time
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

COUNT = 4096
THREADS = 128
EVERY_S = 1.0
HEAD = ".version 6.3\n.target sm_50\n.address_size 64\n"
INCREMENT = (
    HEAD
    + """.visible .entry increment(.param .u64 at)
{
    .reg .b32 %r<5>;
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [at];
    cvta.to.global.u64 %d1, %d1;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r1, %r1, %r2, %r3;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d3, %d1, %d2;
    ld.global.u32 %r4, [%d3];
    add.u32 %r4, %r4, 1;
    st.global.u32 [%d3], %r4;
    ret;
}
"""
)
PR_SET_PDEATHSIG = 1


class Failed(Exception):
    """A driver call failed; the text names it."""


class Gpu:
    def __init__(self):
        self._driver = ctypes.CDLL("libcuda.so.1")
        device, context = c_int(), c_void_p()
        self.call("cuInit", c_uint(0))
        self.call("cuDeviceGet", byref(device), c_int(0))
        self.call("cuDevicePrimaryCtxRetain", byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        status = getattr(self._driver, name)(*arguments)
        if status:
            text = c_char_p()
            self._driver.cuGetErrorName(c_int(status), byref(text))
            raise Failed(f"{name}: {(text.value or str(status).encode()).decode()}")

    def load(self, text):
        module = c_void_p()
        self.call("cuModuleLoadData", byref(module), c_char_p(text.encode()))
        return module


class Student:
    def __init__(self, gpu):
        self._gpu = gpu
        self._function, self._at = c_void_p(), c_uint64()
        gpu.call("cuModuleGetFunction", byref(self._function), gpu.load(INCREMENT), c_char_p(b"increment"))
        gpu.call("cuMemAlloc_v2", byref(self._at), c_size_t(COUNT * 4))

    def step(self, number):
        numbers = c_uint * COUNT
        size = c_size_t(COUNT * 4)
        given, got = numbers(*([number] * COUNT)), numbers()
        self._gpu.call("cuMemcpyHtoD_v2", self._at, given, size)
        parameters = (c_void_p * 1)(ctypes.addressof(self._at))
        geometry = (c_uint(n) for n in (COUNT // THREADS, 1, 1, THREADS, 1, 1, 0))
        self._gpu.call("cuLaunchKernel", self._function, *geometry, c_void_p(), parameters, c_void_p())
        self._gpu.call("cuMemcpyDtoH_v2", got, self._at, size)
        if any(value != number + 1 for value in got):
            raise Failed(f"a kernel added wrongly: {got[0]} is not {number + 1}")


def take_steps(path):
    student = Student(Gpu())
    # Students do not press the key in the same moment.
    time.sleep(random.random() * EVERY_S)
    with open(path, "w", buffering=1) as file:
        for number in itertools.count():
            began = time.monotonic()
            student.step(number)
            now = time.monotonic()
            file.write(f"{now} {now - began}\n")
            time.sleep(max(0.0, began + EVERY_S - now))


def large(mib, turn):
    """A kernel that is nothing but additions; no two texts are the same, so that no cache helps."""
    line = "add.u32 %r1, %r1, 1;\n"
    return (
        f"{HEAD}// {turn}\n.visible .entry large()\n{{\n.reg .b32 %r<4>;\nmov.u32 %r1, 0;\n"
        + line * ((mib << 20) // len(line))
        + "ret;\n}\n"
    )


def bombs():
    """What has brought readers of programs down: nesting, numbers, and much that is said in few words."""
    body = f"{HEAD}.visible .entry bomb()\n{{\n"
    yield body + ".reg .b32 %r<2000000000>;\nret;\n}\n"
    yield body + "{\n" * 500_000 + "}\n" * 500_000 + "ret;\n}\n"
    labels = "".join(f"l{n}: @%p bra l{(n * 7919) % 100_000};\n" for n in range(100_000))
    yield body + ".reg .pred %p;\nsetp.ne.u32 %p, 0, 1;\n" + labels + "ret;\n}\n"
    functions = [f".func f{n}() {{ call f{n + 1}; call f{n + 1}; ret; }}\n" for n in reversed(range(30))]
    yield HEAD + ".func f30() { ret; }\n" + "".join(functions) + ".visible .entry bomb() { call f0; ret; }\n"
    yield f"{HEAD}.global .b8 hoard[1099511627776];\n"
    yield body + f".local .b8 frame[{1 << 40}];\nret;\n}}\n"
    yield body + "x" * 1_000_000 + ";\nret;\n}\n"


def attack(texts):
    """Load each. What is refused was to be expected; whoever loses the connection is started again."""
    gpu = Gpu()
    for tried, text in enumerate(texts):
        try:
            module = gpu.load(text)
        except Failed as failed:
            print(tried, failed, flush=True)
        else:
            print(tried, "loaded", flush=True)
            gpu.call("cuModuleUnload", module)


def main(what, *arguments):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        if what == "steps":
            take_steps(*arguments)
        elif what == "load":
            attack(large(int(arguments[0]), turn) for turn in itertools.count(time.monotonic_ns()))
        else:
            attack(text for _ in itertools.count() for text in bombs())
    except Failed as failed:
        sys.exit(f"{time.monotonic()} {failed}")


if __name__ == "__main__":
    main(*sys.argv[1:])
