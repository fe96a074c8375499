"""cuda.core: kernels that are asked for as machine code, and as LTO IR; what is wrong with a source."""

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Linker, LinkerOptions, Program, ProgramOptions, launch

USE = """
extern __device__ int twice(int);
extern "C" __global__ void use(int* x) { x[threadIdx.x] = twice(x[threadIdx.x]) + 7; }
"""
TWICE = "__device__ int twice(int x) { return 2 * x; }"

device = Device()
device.set_current()
arch = f"sm_{device.arch}"


def compiled(source: str, kind: str, **options: object):
    return Program(source, code_type="c++", options=ProgramOptions(arch=arch, **options)).compile(kind)


def works(module) -> bool:
    stream, host = device.create_stream(), np.arange(32, dtype=np.int32)
    there = device.allocate(host.nbytes, stream=stream)
    stream.sync()
    driver.cuMemcpyHtoD(int(there.handle), host.ctypes.data, host.nbytes)
    launch(stream, LaunchConfig(grid=1, block=32), module.get_kernel("use"), there)
    stream.sync()
    driver.cuMemcpyDtoH(host.ctypes.data, int(there.handle), host.nbytes)
    return np.array_equal(host, 2 * np.arange(32) + 7)


def linked(*parts, **options: object):
    return Linker(*parts, options=LinkerOptions(arch=arch, **options)).link("cubin")


print("machine code:", works(compiled(TWICE + USE, "cubin")))
apart = [compiled(source, "cubin", relocatable_device_code=True) for source in (USE, TWICE)]
print("linked machine code:", works(linked(*apart)))
lto = {"link_time_optimization": True}
optimised = [compiled(source, "ltoir", relocatable_device_code=True, **lto) for source in (USE, TWICE)]
print("LTO IR:", works(linked(*optimised, **lto)))
text = compiled(TWICE, "ptx", relocatable_device_code=True)
print("LTO IR and PTX:", works(linked(optimised[0], text, **lto)))
try:
    linked(optimised[0], **lto)
except Exception as error:
    print("missing:", "twice" in str(error))
try:
    compiled("int nothing = something;", "cubin")
except Exception as error:
    print("wrong:", 'identifier "something" is undefined' in str(error))

# prints:
# machine code: True
# linked machine code: True
# LTO IR: True
# LTO IR and PTX: True
# missing: True
# wrong: True
