"""cuda.bindings.driver: the driver API as C programs use it, with NVRTC, and errors by name."""

import numpy as np
from cuda.bindings import driver, nvrtc


def checked(result):
    error, *values = result
    assert int(error) == 0, error
    return values[0] if len(values) == 1 else tuple(values)


CODE = b"""
extern "C" __global__ void vectorAdd(const float* a, const float* b, float* c, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""
checked(driver.cuInit(0))
device = checked(driver.cuDeviceGet(0))
context = checked(driver.cuDevicePrimaryCtxRetain(device))
checked(driver.cuCtxSetCurrent(context))
program = checked(nvrtc.nvrtcCreateProgram(CODE, b"add.cu", 0, [], []))
checked(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_75"]))
ptx = b" " * checked(nvrtc.nvrtcGetPTXSize(program))
checked(nvrtc.nvrtcGetPTX(program, ptx))
module = checked(driver.cuModuleLoadData(np.char.array(ptx).ctypes.data))
kernel = checked(driver.cuModuleGetFunction(module, b"vectorAdd"))
N = 50_000
host = [np.arange(N, dtype=np.float32), np.arange(N, dtype=np.float32) * 2, np.zeros(N, np.float32)]
there = [checked(driver.cuMemAlloc(array.nbytes)) for array in host]
stream = checked(driver.cuStreamCreate(0))
for pointer, array in zip(there[:2], host[:2], strict=True):
    checked(driver.cuMemcpyHtoDAsync(pointer, array.ctypes.data, array.nbytes, stream))
arguments = [np.array([int(pointer)], np.uint64) for pointer in there] + [np.array([N], np.int32)]
pointers = np.array([argument.ctypes.data for argument in arguments], np.uint64)
checked(driver.cuLaunchKernel(kernel, (N + 255) // 256, 1, 1, 256, 1, 1, 0, stream, pointers.ctypes.data, 0))
checked(driver.cuMemcpyDtoHAsync(host[2].ctypes.data, there[2], host[2].nbytes, stream))
checked(driver.cuStreamSynchronize(stream))
print("sum", np.array_equal(host[2], host[0] + host[1]))

print(driver.cuModuleGetFunction(module, b"no_such")[0].name)
print(driver.cuLaunchKernel(kernel, 1, 1, 1, 2048, 1, 1, 0, stream, pointers.ctypes.data, 0)[0].name)
print(driver.cuMemcpyHtoD(0, host[0].ctypes.data, 4)[0].name)
print(driver.cuDeviceGet(99)[0].name, driver.cuGetErrorName(driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY)[1])
broken = checked(nvrtc.nvrtcCreateProgram(b"__global__ void f() { int x = ; }", b"broken.cu", 0, [], []))
print(nvrtc.nvrtcCompileProgram(broken, 0, [])[0].name)
for pointer in there:
    checked(driver.cuMemFree(pointer))
checked(driver.cuStreamDestroy(stream))
checked(driver.cuModuleUnload(module))
checked(driver.cuDevicePrimaryCtxRelease(device))

# prints:
# sum True
# CUDA_ERROR_NOT_FOUND
# CUDA_ERROR_INVALID_VALUE
# CUDA_ERROR_INVALID_VALUE
# CUDA_ERROR_INVALID_DEVICE b'CUDA_ERROR_OUT_OF_MEMORY'
# NVRTC_ERROR_COMPILATION
