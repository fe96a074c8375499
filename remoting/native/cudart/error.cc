// Error codes: names, texts, the driver's in the runtime's words, and the last error of a thread.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "driver.h"
#include "thread_state.h"

namespace cudart {
namespace {

// The storage of a thread is zero until it is first used: nothing runs when a thread starts or ends.
static_assert(static_cast<int>(cudaSuccess) == 0);

struct Row {
    int value;
    const char* name;
};

constexpr Row kRows[] = {
#define ERROR(name, value) {value, #name},
#include "error_names.inc"
#undef ERROR
};

const Row* find(int value) {
    const Row* row = std::lower_bound(std::begin(kRows), std::end(kRows), value,
                                      [](const Row& row, int wanted) { return row.value < wanted; });
    return row != std::end(kRows) && row->value == value ? row : nullptr;
}

// Texts for codes that the driver does not have; the others are the driver's own.
const char* own_text(int value) {
    switch (value) {
        case cudaSuccess:
            return "no error";
        case cudaErrorInvalidValue:
            return "invalid argument";
        case cudaErrorMemoryAllocation:
            return "out of memory";
        case cudaErrorInitializationError:
            return "initialization error";
        case cudaErrorCudartUnloading:
            return "driver shutting down";
        case cudaErrorInvalidConfiguration:
            return "invalid configuration argument";
        case cudaErrorInvalidPitchValue:
            return "invalid pitch argument";
        case cudaErrorInvalidSymbol:
            return "invalid device symbol";
        case cudaErrorInvalidHostPointer:
            return "invalid host pointer";
        case cudaErrorInvalidDevicePointer:
            return "invalid device pointer";
        case cudaErrorInvalidTexture:
            return "invalid texture reference";
        case cudaErrorInvalidTextureBinding:
            return "texture is not bound to a pointer";
        case cudaErrorInvalidChannelDescriptor:
            return "invalid channel descriptor";
        case cudaErrorInvalidMemcpyDirection:
            return "invalid copy direction for memcpy";
        case cudaErrorInsufficientDriver:
            return "CUDA driver version is insufficient for CUDA runtime version";
        case cudaErrorMissingConfiguration:
            return "__global__ function call is not configured";
        case cudaErrorInvalidDeviceFunction:
            return "invalid device function";
        case cudaErrorNoDevice:
            return "no CUDA-capable device is detected";
        case cudaErrorInvalidDevice:
            return "invalid device ordinal";
        case cudaErrorDeviceNotLicensed:
            return "device is not licensed for this use";
        case cudaErrorStartupFailure:
            return "startup failure in cuda runtime";
        case cudaErrorInvalidKernelImage:
            return "device kernel image is invalid";
        case cudaErrorDeviceUninitialized:
            return "invalid device context";
        case cudaErrorNoKernelImageForDevice:
            return "no kernel image is available for execution on the device";
        case cudaErrorInvalidResourceHandle:
            return "invalid resource handle";
        case cudaErrorSymbolNotFound:
            return "named symbol not found";
        case cudaErrorNotReady:
            return "device not ready";
        case cudaErrorIllegalAddress:
            return "an illegal memory access was encountered";
        case cudaErrorLaunchOutOfResources:
            return "too many resources requested for launch";
        case cudaErrorLaunchTimeout:
            return "the launch timed out and was terminated";
        case cudaErrorAssert:
            return "device-side assert triggered";
        case cudaErrorLaunchFailure:
            return "unspecified launch failure";
        case cudaErrorNotSupported:
            return "operation not supported";
        case cudaErrorUnknown:
            return "unknown error";
        default:
            return nullptr;
    }
}

}  // namespace

ThreadState& this_thread() {
    static thread_local ThreadState state;
    return state;
}

cudaError_t finish(cudaError_t error) {
    if (error != cudaSuccess && error != cudaErrorNotReady) this_thread().last_error = error;
    return error;
}

cudaError_t translated(CUresult result) {
    if (result == CUDA_SUCCESS) return cudaSuccess;
    return find(result) ? static_cast<cudaError_t>(result) : cudaErrorUnknown;
}

}  // namespace cudart

using namespace cudart;

extern "C" {

cudaError_t cudaGetLastError(void) {
    ThreadState& thread = this_thread();
    const cudaError_t last = thread.last_error;
    thread.last_error = cudaSuccess;
    return last;
}

cudaError_t cudaPeekAtLastError(void) {
    return this_thread().last_error;
}

const char* cudaGetErrorName(cudaError_t error) {
    const Row* row = find(error);
    return row ? row->name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
    if (const char* text = own_text(error)) return text;
    if (!find(error)) return "unrecognized error code";
    const Driver* driver = opened_driver();
    const char* text = nullptr;
    if (driver && driver->cuGetErrorString &&
        driver->cuGetErrorString(static_cast<CUresult>(error), &text) == CUDA_SUCCESS && text) {
        return text;
    }
    return find(error)->name;
}
}
