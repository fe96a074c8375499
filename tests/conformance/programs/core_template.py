"""cuda.core: a C++ template, instantiated for two types by its name expressions."""

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

CODE = """
template <typename T> __global__ void saxpy(T a, const T* x, const T* y, T* out, size_t n) {
    const size_t step = gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) out[i] = a * x[i] + y[i];
}
"""
N = 10_000

device = Device()
device.set_current()
stream = device.create_stream()
options = ProgramOptions(std="c++17", arch=f"compute_{device.arch}")
module = Program(CODE, code_type="c++", options=options).compile(
    "ptx", name_expressions=("saxpy<float>", "saxpy<double>")
)
for name, dtype in ("float", np.float32), ("double", np.float64):
    kernel = module.get_kernel(f"saxpy<{name}>")
    x, y = np.arange(N, dtype=dtype), np.full(N, 0.5, dtype)
    there = [device.allocate(x.nbytes, stream=stream) for _ in range(3)]
    for buffer, host in (there[0], x), (there[1], y):
        driver.cuMemcpyHtoDAsync(int(buffer.handle), host.ctypes.data, host.nbytes, int(stream.handle))
    launch(stream, LaunchConfig(grid=32, block=128), kernel, dtype(3), *there, np.uint64(N))
    out = np.empty_like(x)
    driver.cuMemcpyDtoHAsync(out.ctypes.data, int(there[2].handle), out.nbytes, int(stream.handle))
    stream.sync()
    print(name, np.array_equal(out, 3 * x + y), kernel.num_arguments)
    for buffer in there:
        buffer.close(stream)

# prints:
# float True 5
# double True 5
