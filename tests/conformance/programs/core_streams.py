"""cuda.core: two streams, one waiting for the other; events with and without timing."""

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, EventOptions, LaunchConfig, Program, ProgramOptions, StreamOptions, launch

CODE = """
extern "C" __global__ void step(unsigned* at, unsigned from, unsigned to) {
    if (*at == from) *at = to;
}
"""
device = Device()
device.set_current()
first = device.create_stream()
second = device.create_stream(options=StreamOptions(nonblocking=True, priority=0))
options = ProgramOptions(arch=f"compute_{device.arch}")
kernel = Program(CODE, code_type="c++", options=options).compile("ptx").get_kernel("step")
at = device.allocate(4, stream=first)
driver.cuMemsetD32Async(int(at.handle), 0, 1, int(first.handle))
one = LaunchConfig(grid=1, block=1)
timed = EventOptions(timing_enabled=True)
begun = first.record(options=timed)
for i in range(0, 20, 2):
    launch(first, one, kernel, at, np.uint32(i), np.uint32(i + 1))
    second.wait(first.record())
    launch(second, one, kernel, at, np.uint32(i + 1), np.uint32(i + 2))
    first.wait(second)
ended = first.record(options=timed)
ended.sync()
host = np.zeros(1, np.uint32)
driver.cuMemcpyDtoH(host.ctypes.data, int(at.handle), 4)
print("steps", host[0], "done", ended.is_done, "time", ended - begun >= 0)
print("first", first.is_nonblocking, "second", second.is_nonblocking)
try:
    print(ended - first.record())
except Exception as error:
    print(type(error).__name__)

# prints:
# steps 20 done True time True
# first True second True
# RuntimeError
