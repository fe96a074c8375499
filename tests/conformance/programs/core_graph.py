"""cuda.core: a graph with two branches, made by capture and launched again and again."""

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

CODE = """
extern "C" __global__ void add(int* x, int what) { atomicAdd(x, what); }
extern "C" __global__ void join(const int* x, const int* y, int* out) { *out += *x * 1000 + *y; }
"""
device = Device()
device.set_current()
stream = device.create_stream()
module = Program(CODE, code_type="c++", options=ProgramOptions(arch=f"compute_{device.arch}")).compile("ptx")
add, join = module.get_kernel("add"), module.get_kernel("join")
memory = device.allocate(12, stream=stream)
x, y, out = (int(memory.handle) + at for at in (0, 4, 8))
driver.cuMemsetD32Async(x, 0, 3, int(stream.handle))
one = LaunchConfig(grid=1, block=1)

builder = stream.create_graph_builder().begin_building()
launch(builder, one, add, x, np.int32(1))
left, right = builder.split(2)
launch(left, one, add, x, np.int32(2))
launch(right, one, add, y, np.int32(5))
builder = type(builder).join(left, right)
launch(builder, one, join, x, y, out)
graph = builder.end_building().complete()
for _ in range(3):
    graph.launch(stream)
stream.sync()
host = np.zeros(3, np.int32)
driver.cuMemcpyDtoH(host.ctypes.data, x, 12)
print(host)
graph.close()

# prints:
# [    9    15 18030]
