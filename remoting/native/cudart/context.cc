#include "context.h"

#include <atomic>
#include <mutex>

#include "forward.h"

namespace cudart {
namespace {

constexpr int kMaxDevices = 64;

// The primary contexts that this library holds; one count of each for the whole process. Zero at the start,
// and never destroyed.
Kept<CUcontext> primary_contexts[kMaxDevices];
std::mutex keeping;

// A primary context that was reset and has not begun again. It is still the current one of each thread that
// used it; CUDA begins it anew with whichever of their calls comes next.
std::atomic<CUcontext> resets[kMaxDevices];
std::atomic<int> reset_now{0};  // how many of these there are: next to always none

// The device whose primary context `context` is, if that was reset.
int reset_device_of(CUcontext context) {
    if (reset_now.load(std::memory_order_acquire) == 0) return -1;
    for (int device = 0; device < kMaxDevices; ++device) {
        if (resets[device].load(std::memory_order_acquire) == context) return device;
    }
    return -1;
}

// With the mutex.
void keep_reset(int device, CUcontext context) {
    const CUcontext before = resets[device].exchange(context, std::memory_order_acq_rel);
    reset_now.fetch_add((context != nullptr) - (before != nullptr), std::memory_order_acq_rel);
}

// The device that the thread has chosen in this life.
int& own_device(const Driver& driver) {
    ThreadState& thread = this_thread();
    const uint64_t life = life_of(driver);
    if (thread.life != life) thread.device = 0;
    thread.life = life;
    return thread.device;
}

}  // namespace

CUresult primary_context(const Driver& driver, int device, CUcontext& context) {
    if (device < 0 || device >= kMaxDevices) return CUDA_ERROR_INVALID_DEVICE;
    const uint64_t life = life_of(driver);
    context = primary_contexts[device].get(life);
    if (context) return CUDA_SUCCESS;
    CUdevice handle;
    if (CUresult result = driver.cuDeviceGet(&handle, device); result != CUDA_SUCCESS) return result;
    CUcontext retained;
    if (CUresult result = driver.cuDevicePrimaryCtxRetain(&retained, handle); result != CUDA_SUCCESS) {
        return result;
    }
    const std::lock_guard lock(keeping);
    context = primary_contexts[device].get(life);
    if (context) {
        driver.cuDevicePrimaryCtxRelease_v2(handle);
    } else {
        primary_contexts[device].keep(life, context = retained);
        keep_reset(device, nullptr);
    }
    return CUDA_SUCCESS;
}

const Driver* use_context(cudaError_t& error) {
    const Driver* driver = use_driver(error);
    if (!driver) return nullptr;
    CUcontext context = nullptr;
    CUresult result = driver->cuCtxGetCurrent(&context);
    const int reset = result == CUDA_SUCCESS && context ? reset_device_of(context) : -1;
    if (result == CUDA_SUCCESS && (!context || reset >= 0)) {
        result = primary_context(*driver, reset >= 0 ? reset : own_device(*driver), context);
        if (result == CUDA_SUCCESS) result = driver->cuCtxSetCurrent(context);
    }
    if (result == CUDA_SUCCESS) return driver;
    error = translated(result);
    return nullptr;
}

const Driver* use_context_if_alive(cudaError_t& error) {
    const Driver* driver = opened_driver();
    return driver && between_lives(*driver) ? driver : use_context(error);
}

cudaError_t choose_device(const Driver& driver, int device) {
    CUcontext context;
    CUresult result = primary_context(driver, device, context);
    if (result == CUDA_SUCCESS) result = driver.cuCtxSetCurrent(context);
    if (result == CUDA_SUCCESS) own_device(driver) = device;
    return translated(result);
}

cudaError_t choose_later(const Driver& driver, int device) {
    own_device(driver) = device;
    return cudaSuccess;
}

int current_device(const Driver& driver) {
    CUcontext context = nullptr;
    CUdevice device;
    if (driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context &&
        driver.cuCtxGetDevice(&device) == CUDA_SUCCESS) {
        return device;
    }
    return own_device(driver);
}

cudaError_t reset_device(const Driver& driver, int device) {
    if (between_lives(driver)) return cudaSuccess;
    if (device < 0 || device >= kMaxDevices) return cudaErrorInvalidDevice;
    const CUresult result = driver.cuDevicePrimaryCtxReset_v2(device);
    const uint64_t life = life_of(driver);
    {
        const std::lock_guard lock(keeping);
        const CUcontext held = primary_contexts[device].get(life);
        if (held) driver.cuDevicePrimaryCtxRelease_v2(device);
        primary_contexts[device].keep(life, nullptr);
        if (held) keep_reset(device, held);
    }
    driver.cuCtxSetCurrent(nullptr);
    return translated(result);
}

}  // namespace cudart
