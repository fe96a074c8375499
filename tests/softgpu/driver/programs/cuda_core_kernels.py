"""cuda.core: compile with NVRTC, link, launch, streams, events, memory pools, a captured graph."""

import ctypes
import struct

from cuda.core import (
    Device,
    EventOptions,
    LaunchConfig,
    Linker,
    LinkerOptions,
    Program,
    ProgramOptions,
    launch,
)

SOURCE = """
extern "C" __device__ float scaled(float x);
extern "C" __global__ void apply(float* a, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = scaled(a[i]);
}
extern "C" __global__ void hello(int n) { printf("hello %d\\n", n); }
"""
LIBRARY = 'extern "C" __device__ float scaled(float x) { return x * 3; }'

device = Device(0)
device.set_current()
assert "software gpu" in device.name.lower()
assert tuple(device.compute_capability) == (7, 5)
stream = device.create_stream()
options = ProgramOptions(arch="sm_75", relocatable_device_code=True)
parts = [Program(text, code_type="c++", options=options).compile("ptx") for text in (SOURCE, LIBRARY)]
code = Linker(*parts, options=LinkerOptions(arch="sm_75")).link("cubin")
kernel = code.get_kernel("apply")
assert kernel.num_arguments == 2
assert [part.size for part in kernel.arguments_info] == [8, 4]

n = 1000
host = struct.pack(f"<{n}f", *range(n))
before = device.memory_resource.attributes.used_mem_current
buffer = device.allocate(len(host), stream=stream)
assert device.memory_resource.attributes.used_mem_current - before == len(host)


def copied(data: bytes | None = None) -> bytes:
    from cuda.bindings import driver

    if data is not None:
        (code,) = driver.cuMemcpyHtoD(int(buffer.handle), data, len(data))
        assert code == 0
    out = bytearray(len(host))
    (code,) = driver.cuMemcpyDtoH(out, int(buffer.handle), len(host))
    assert code == 0
    return bytes(out)


copied(host)
start = stream.record(options=EventOptions(timing_enabled=True))
launch(stream, LaunchConfig(grid=8, block=128), kernel, buffer, ctypes.c_uint32(n))
end = stream.record(options=EventOptions(timing_enabled=True))
end.sync()
assert end - start >= 0
assert struct.unpack(f"<{n}f", copied()) == tuple(3.0 * i for i in range(n))

builder = device.create_graph_builder()
builder.begin_building()
launch(builder, LaunchConfig(grid=8, block=128), kernel, buffer, ctypes.c_uint32(n))
graph = builder.end_building().complete()
copied(host)
for _ in range(2):
    graph.launch(stream)
stream.sync()
assert struct.unpack(f"<{n}f", copied()) == tuple(9.0 * i for i in range(n))

launch(stream, LaunchConfig(grid=1, block=2), code.get_kernel("hello"), ctypes.c_int32(5))
stream.sync()
buffer.close(stream)
stream.sync()
assert device.memory_resource.attributes.used_mem_current == before
print("right")
