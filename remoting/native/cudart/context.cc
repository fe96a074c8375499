#include "context.h"

#include <atomic>
#include <mutex>

#include "forward.h"

namespace cudart {
namespace {

constexpr int kMaxDevices = 64;

// The primary contexts that this library holds; one count of each for the whole process. Zero at the start,
// and never destroyed.
std::atomic<CUcontext> primary_contexts[kMaxDevices];

}  // namespace

CUresult primary_context(const Driver& driver, int device, CUcontext& context) {
    if (device < 0 || device >= kMaxDevices) return CUDA_ERROR_INVALID_DEVICE;
    context = primary_contexts[device].load(std::memory_order_acquire);
    if (context) return CUDA_SUCCESS;
    CUdevice handle;
    if (CUresult result = driver.cuDeviceGet(&handle, device); result != CUDA_SUCCESS) return result;
    CUcontext retained;
    if (CUresult result = driver.cuDevicePrimaryCtxRetain(&retained, handle); result != CUDA_SUCCESS) {
        return result;
    }
    if (primary_contexts[device].compare_exchange_strong(context, retained)) {
        context = retained;
    } else {
        driver.cuDevicePrimaryCtxRelease_v2(handle);
    }
    return CUDA_SUCCESS;
}

const Driver* use_context(cudaError_t& error) {
    const Driver* driver = use_driver(error);
    if (!driver) return nullptr;
    CUcontext context = nullptr;
    CUresult result = driver->cuCtxGetCurrent(&context);
    if (result == CUDA_SUCCESS && !context) {
        result = primary_context(*driver, this_thread().device, context);
        if (result == CUDA_SUCCESS) result = driver->cuCtxSetCurrent(context);
    }
    if (result == CUDA_SUCCESS) return driver;
    error = translated(result);
    return nullptr;
}

cudaError_t choose_device(const Driver& driver, int device) {
    CUcontext context;
    CUresult result = primary_context(driver, device, context);
    if (result == CUDA_SUCCESS) result = driver.cuCtxSetCurrent(context);
    if (result == CUDA_SUCCESS) this_thread().device = device;
    return translated(result);
}

int current_device(const Driver& driver) {
    CUcontext context = nullptr;
    CUdevice device;
    if (driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context &&
        driver.cuCtxGetDevice(&device) == CUDA_SUCCESS) {
        return device;
    }
    return this_thread().device;
}

cudaError_t reset_device(const Driver& driver, int device) {
    if (device < 0 || device >= kMaxDevices) return cudaErrorInvalidDevice;
    const CUresult result = driver.cuDevicePrimaryCtxReset_v2(device);
    if (primary_contexts[device].exchange(nullptr)) driver.cuDevicePrimaryCtxRelease_v2(device);
    driver.cuCtxSetCurrent(nullptr);
    return translated(result);
}

}  // namespace cudart
