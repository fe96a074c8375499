// Launches: what nvcc's output calls for <<< >>>, and the calls a program makes itself.
#include "launch.h"

#include <climits>

#include "forward.h"
#include "registry.h"

namespace cudart {
namespace {

bool within(const Driver& driver, int device, CUdevice_attribute first, dim3 size) {
    const unsigned sizes[] = {size.x, size.y, size.z};
    for (int axis = 0; axis < 3; ++axis) {
        int limit = INT_MAX;
        invoke(driver.cuDeviceGetAttribute, &limit, first + axis, device);
        if (sizes[axis] == 0 || sizes[axis] > static_cast<unsigned>(limit)) return false;
    }
    return true;
}

// The runtime has a code of its own for a shape that no device or not this one can run; the driver calls it
// an invalid value.
bool possible_shape(const Driver& driver, dim3 grid, dim3 block) {
    const int device = current_device(driver);
    int threads = INT_MAX;
    invoke(driver.cuDeviceGetAttribute, &threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
    return within(driver, device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, grid) &&
           within(driver, device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, block) &&
           1ull * block.x * block.y * block.z <= static_cast<unsigned>(threads);
}

cudaError_t refined(const Driver& driver, CUresult result, dim3 grid, dim3 block) {
    if (result == CUDA_ERROR_INVALID_VALUE && !possible_shape(driver, grid, block)) {
        return cudaErrorInvalidConfiguration;
    }
    return translated(result);
}

cudaError_t launch(const void* entry, const LaunchShape& shape, void** arguments) {
    return call<Need::context>([&](const Driver& driver) {
        CUfunction function;
        if (cudaError_t error = find_function(driver, entry, function); error != cudaSuccess) return error;
        if (shape.shared_bytes > UINT_MAX) return cudaErrorInvalidValue;
        const auto& [grid, block, shared, stream] = shape;
        const CUresult result =
            driver.cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                  static_cast<unsigned>(shared), stream, arguments, nullptr);
        return refined(driver, result, grid, block);
    });
}

}  // namespace

bool driver_config(const cudaLaunchConfig_t& from, CUlaunchConfig& to) {
    if (from.dynamicSmemBytes > UINT_MAX) return false;
    to = {.gridDimX = from.gridDim.x,
          .gridDimY = from.gridDim.y,
          .gridDimZ = from.gridDim.z,
          .blockDimX = from.blockDim.x,
          .blockDimY = from.blockDim.y,
          .blockDimZ = from.blockDim.z,
          .sharedMemBytes = static_cast<unsigned>(from.dynamicSmemBytes),
          .hStream = from.stream,
          .attrs = as<CUlaunchAttribute*>(from.attrs),
          .numAttrs = from.numAttrs};
    static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));
    return true;
}

}  // namespace cudart

using namespace cudart;

extern "C" {

unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                     struct CUstream_st* stream) {
    ThreadState& thread = this_thread();
    if (thread.shapes == ThreadState::kMaxShapes) return finish(cudaErrorLaunchOutOfResources);
    thread.shape[thread.shapes++] = {gridDim, blockDim, sharedMem, stream};
    return cudaSuccess;
}

cudaError_t __cudaPopCallConfiguration(dim3* gridDim, dim3* blockDim, size_t* sharedMem, void* stream) {
    ThreadState& thread = this_thread();
    if (thread.shapes == 0) return finish(cudaErrorMissingConfiguration);
    const LaunchShape& shape = thread.shape[--thread.shapes];
    *gridDim = shape.grid;
    *blockDim = shape.block;
    *sharedMem = shape.shared_bytes;
    *static_cast<cudaStream_t*>(stream) = shape.stream;
    return cudaSuccess;
}

// nvcc's output asks once for each kernel, keeps the answer for ever and launches with it whatever it was. So
// the answer is the address itself: a load that fails, fails each launch with its own error, and may succeed
// later.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* entry) {
    *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(entry));
    return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void** args,
                               size_t sharedMem, cudaStream_t stream) {
    return launch(kernel, {gridDim, blockDim, sharedMem, stream}, args);
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void** args,
                                    size_t sharedMem, cudaStream_t stream) {
    return launch(kernel, {gridDim, blockDim, sharedMem, per_thread(stream)}, args);
}

cudaError_t cudaLaunchKernel(const void* func, dim3 gridDim, dim3 blockDim, void** args, size_t sharedMem,
                             cudaStream_t stream) {
    return launch(func, {gridDim, blockDim, sharedMem, stream}, args);
}

cudaError_t cudaLaunchCooperativeKernel(const void* func, dim3 gridDim, dim3 blockDim, void** args,
                                        size_t sharedMem, cudaStream_t stream) {
    return call<Need::context>([&](const Driver& driver) {
        CUfunction function;
        if (cudaError_t error = find_function(driver, func, function); error != cudaSuccess) return error;
        if (sharedMem > UINT_MAX) return cudaErrorInvalidValue;
        const CUresult result =
            invoke(driver.cuLaunchCooperativeKernel, function, gridDim.x, gridDim.y, gridDim.z, blockDim.x,
                   blockDim.y, blockDim.z, static_cast<unsigned>(sharedMem), stream, args);
        return refined(driver, result, gridDim, blockDim);
    });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* func, void** args) {
    return call<Need::context>([&](const Driver& driver) {
        CUlaunchConfig given;
        if (!config || !driver_config(*config, given)) return cudaErrorInvalidValue;
        CUfunction function;
        if (cudaError_t error = find_function(driver, func, function); error != cudaSuccess) return error;
        const CUresult result = invoke(driver.cuLaunchKernelEx, &given, function, args, nullptr);
        return refined(driver, result, config->gridDim, config->blockDim);
    });
}

cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* func, void** args) {
    if (!config) return finish(cudaErrorInvalidValue);
    cudaLaunchConfig_t given = *config;
    given.stream = per_thread(given.stream);
    return cudaLaunchKernelExC(&given, func, args);
}
}
