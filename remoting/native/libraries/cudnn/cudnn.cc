// cuDNN's handles and what is asked about the library. As NVIDIA's documentation of the API has it.
#include <stddef.h>
#include <string.h>

#include <new>

#include "handle.h"
#include "roles.h"
#include "status.h"

using namespace cudnn;

namespace {

enum Part : int { kMajor = 0, kMinor = 1, kPatch = 2 };

constexpr int kVersion[] = {9, 28, 0};  // whose names calls.txt has
constexpr char kWhere[] = " (gpu-kernels: what cuDNN does not do on a slice is named on the standard error)";

}  // namespace

// XLA wants a handle before it compiles anything, so it is there whether something computes or not. Where
// nothing does, the person is told now, and each function that computes answers so.
CUDNN_EXPORT int cudnnCreate(void** handle) {
    if (!handle) return kNullPointer;
    *handle = all<Handle>().add();
    if (!*handle) return kOutOfMemory;
    all<Handle>().find(*handle)->can_compute();
    return kSuccess;
}

CUDNN_EXPORT int cudnnDestroy(void* handle) {
    return !handle || all<Handle>().remove(handle) ? kSuccess : kBadParameter;
}

CUDNN_EXPORT int cudnnSetStream(void* handle, CUstream stream) {
    const auto found = all<Handle>().find(handle);
    if (!found) return kBadParameter;
    found->stream = stream;
    return kSuccess;
}

CUDNN_EXPORT int cudnnGetStream(void* handle, CUstream* stream) {
    const auto found = all<Handle>().find(handle);
    if (!found) return kBadParameter;
    if (!stream) return kNullPointer;
    *stream = found->stream;
    return kSuccess;
}

CUDNN_EXPORT size_t cudnnGetVersion() {
    return kVersion[kMajor] * 10000 + kVersion[kMinor] * 100 + kVersion[kPatch];
}

CUDNN_EXPORT size_t cudnnGetMaxDeviceVersion() {
    return cudnnGetVersion();
}

// It was built with no runtime.
CUDNN_EXPORT size_t cudnnGetCudartVersion() {
    return 0;
}

CUDNN_EXPORT int cudnnGetProperty(Part part, int* value) {
    if (!value) return kNullPointer;
    if (part < kMajor || part > kPatch) return kBadParameter;
    *value = kVersion[part];
    return kSuccess;
}

// The parts of the library that NVIDIA's opens one by one; there is one here.
CUDNN_EXPORT int cudnnOpsVersionCheck() {
    return kSuccess;
}

CUDNN_EXPORT int cudnnCnnVersionCheck() {
    return kSuccess;
}

CUDNN_EXPORT int cudnnAdvVersionCheck() {
    return kSuccess;
}

CUDNN_EXPORT int cudnnGraphVersionCheck() {
    return kSuccess;
}

CUDNN_EXPORT const char* cudnnGetErrorString(int status) {
    if (status == kNullPointer) return "CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
    if (status == kOutOfMemory) return "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
    if (status == kOutOfDeviceMemory) return "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED";
    switch (kind_of(status)) {
        case kind_of(kSuccess):
            return "CUDNN_STATUS_SUCCESS";
        case kind_of(kNotInitialized):
            return "CUDNN_STATUS_NOT_INITIALIZED";
        case kind_of(kBadParameter):
            return "CUDNN_STATUS_BAD_PARAM";
        case kind_of(kNotSupported):
            return "CUDNN_STATUS_NOT_SUPPORTED";
        case kind_of(kExecutionFailed):
            return "CUDNN_STATUS_EXECUTION_FAILED";
        default:
            return "CUDNN_STATUS_INTERNAL_ERROR";
    }
}

CUDNN_EXPORT void cudnnGetLastErrorString(char* message, size_t length) {
    if (!message || length == 0) return;
    const size_t fits = length - 1 < sizeof kWhere - 1 ? length - 1 : sizeof kWhere - 1;
    memcpy(message, kWhere, fits);
    message[fits] = '\0';
}

// A descriptor of operations that are not done is a place that its program may name; nothing reads what it is set to.
extern "C" int cudnn_create(void** descriptor) {
    if (!descriptor) return kNullPointer;
    *descriptor = new (std::nothrow) char;
    return *descriptor ? kSuccess : kOutOfMemory;
}

extern "C" int cudnn_destroy(void* descriptor) {
    delete static_cast<char*>(descriptor);
    return kSuccess;
}
