"""cuda.core: two modules compiled apart, linked and called across; a symbol that nobody has."""

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Linker, LinkerOptions, Program, ProgramOptions, launch

MAIN = """
extern __device__ int twice(int);
extern __device__ int offset;
extern "C" __global__ void use(int* x) { x[threadIdx.x] = twice(x[threadIdx.x]) + offset; }
"""
LIBRARY = "__device__ int offset = 7; __device__ int twice(int x) { return 2 * x; }"

device = Device()
device.set_current()
stream = device.create_stream()
options = ProgramOptions(arch=f"compute_{device.arch}", relocatable_device_code=True)
parts = [Program(code, code_type="c++", options=options).compile("ptx") for code in (MAIN, LIBRARY)]
module = Linker(*parts, options=LinkerOptions(arch=f"sm_{device.arch}")).link("cubin")
kernel = module.get_kernel("use")
host = np.arange(32, dtype=np.int32)
there = device.allocate(host.nbytes, stream=stream)
stream.sync()
driver.cuMemcpyHtoD(int(there.handle), host.ctypes.data, host.nbytes)
launch(stream, LaunchConfig(grid=1, block=32), kernel, there)
stream.sync()
driver.cuMemcpyDtoH(host.ctypes.data, int(there.handle), host.nbytes)
print(np.array_equal(host, 2 * np.arange(32) + 7))
try:
    Linker(parts[0], options=LinkerOptions(arch=f"sm_{device.arch}")).link("cubin")
except Exception as error:
    print("twice" in str(error), "offset" in str(error))

# prints:
# True
# True True
