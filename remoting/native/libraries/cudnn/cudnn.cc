// cuDNN's handles and what is asked about the library; it computes nothing. As NVIDIA's documentation of the
// API has it.
#include <stddef.h>
#include <string.h>

#include <atomic>
#include <new>
#include <string>

#include "roles.h"
#include "tell.h"

#define CUDNN_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

enum Status : int {
    kSuccess = 0,
    kNotInitialized = 1001,
    kOutOfMemory = 1003,  // "allocation failed"
    kBadParameter = 2000,
    kNullPointer = 2002,
    kNotSupported = 3000,
    kInternalError = 4000,
    kExecutionFailed = 5000,
};

enum Part : int { kMajor = 0, kMinor = 1, kPatch = 2 };

constexpr int kVersion[] = {9, 28, 0};  // whose names calls.txt has
constexpr char kWhy[] =
    "cuDNN's operations are not there: NVIDIA's library works with NVIDIA's driver only, and this one, which "
    "stands for "
    "it on a slice of a GPU, computes nothing";

struct Handle {
    void* stream = nullptr;
};

}  // namespace

CUDNN_EXPORT Status cudnnCreate(Handle** handle) {
    if (!handle) return kNullPointer;
    *handle = new (std::nothrow) Handle;
    return *handle ? kSuccess : kOutOfMemory;
}

CUDNN_EXPORT Status cudnnDestroy(Handle* handle) {
    delete handle;
    return kSuccess;
}

CUDNN_EXPORT Status cudnnSetStream(Handle* handle, void* stream) {
    if (!handle) return kNullPointer;
    handle->stream = stream;
    return kSuccess;
}

CUDNN_EXPORT Status cudnnGetStream(Handle* handle, void** stream) {
    if (!handle || !stream) return kNullPointer;
    *stream = handle->stream;
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

CUDNN_EXPORT Status cudnnGetProperty(Part part, int* value) {
    if (!value) return kNullPointer;
    if (part < kMajor || part > kPatch) return kBadParameter;
    *value = kVersion[part];
    return kSuccess;
}

// The parts of the library that NVIDIA's opens one by one; there is one here.
CUDNN_EXPORT Status cudnnOpsVersionCheck() {
    return kSuccess;
}

CUDNN_EXPORT Status cudnnCnnVersionCheck() {
    return kSuccess;
}

CUDNN_EXPORT Status cudnnAdvVersionCheck() {
    return kSuccess;
}

CUDNN_EXPORT Status cudnnGraphVersionCheck() {
    return kSuccess;
}

CUDNN_EXPORT const char* cudnnGetErrorString(Status status) {
    switch (status) {
        case kSuccess:
            return "CUDNN_STATUS_SUCCESS";
        case kNotInitialized:
            return "CUDNN_STATUS_NOT_INITIALIZED";
        case kOutOfMemory:
            return "CUDNN_STATUS_ALLOC_FAILED";
        case kBadParameter:
            return "CUDNN_STATUS_BAD_PARAM";
        case kNullPointer:
            return "CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
        case kNotSupported:
            return "CUDNN_STATUS_NOT_SUPPORTED";
        case kExecutionFailed:
            return "CUDNN_STATUS_EXECUTION_FAILED";
        default:
            return "CUDNN_STATUS_INTERNAL_ERROR";
    }
}

CUDNN_EXPORT void cudnnGetLastErrorString(char* message, size_t length) {
    if (!message || length == 0) return;
    const size_t fits = length - 1 < sizeof kWhy - 1 ? length - 1 : sizeof kWhy - 1;
    memcpy(message, kWhy, fits);
    message[fits] = '\0';
}

// A descriptor is a place that its program may name; nothing reads what it is set to.
extern "C" int cudnn_create(void** descriptor) {
    if (!descriptor) return kNullPointer;
    *descriptor = new (std::nothrow) char;
    return *descriptor ? kSuccess : kOutOfMemory;
}

extern "C" int cudnn_destroy(void* descriptor) {
    delete static_cast<char*>(descriptor);
    return kSuccess;
}

// Frameworks try one function after the other: the first says what stands for all.
extern "C" int library_unsupported(const char* name) {
    static std::atomic<bool> told{false};
    if (!told.exchange(true))
        libraries::tell_user(std::string(name) + " returns CUDNN_STATUS_NOT_SUPPORTED. " + kWhy);
    return kNotSupported;
}
