// cuBLAS' handles: a stream and some settings.
#include <stddef.h>

#include <new>

#include "roles.h"
#include "status.h"

using namespace cublas;

namespace {

constexpr int kVersion[] = {CUBLAS_MAJOR, 0, 0};

template <typename Value>
Status get(const Handle* handle, Value Handle::* member, Value* value) {
    if (!handle) return kNotInitialized;
    if (!value) return kInvalidValue;
    *value = handle->*member;
    return kSuccess;
}

template <typename Value>
Status set(Handle* handle, Value Handle::* member, Value value) {
    if (!handle) return kNotInitialized;
    handle->*member = value;
    return kSuccess;
}

}  // namespace

CUBLAS_EXPORT Status cublasCreate_v2(Handle** handle) {
    if (!handle) return kInvalidValue;
    *handle = new (std::nothrow) Handle;
    return *handle ? kSuccess : kAllocFailed;
}

CUBLAS_EXPORT Status cublasDestroy_v2(Handle* handle) {
    if (!handle) return kNotInitialized;
    delete handle;
    return kSuccess;
}

CUBLAS_EXPORT Status cublasSetStream_v2(Handle* handle, CUstream stream) {
    return set(handle, &Handle::stream, stream);
}

CUBLAS_EXPORT Status cublasGetStream_v2(Handle* handle, CUstream* stream) {
    return get(handle, &Handle::stream, stream);
}

CUBLAS_EXPORT Status cublasSetPointerMode_v2(Handle* handle, PointerMode mode) {
    if (mode != kHost && mode != kDevice) return kInvalidValue;
    return set(handle, &Handle::pointers, mode);
}

CUBLAS_EXPORT Status cublasGetPointerMode_v2(Handle* handle, PointerMode* mode) {
    return get(handle, &Handle::pointers, mode);
}

CUBLAS_EXPORT Status cublasSetMathMode(Handle* handle, int mode) {
    return set(handle, &Handle::math, mode);
}

CUBLAS_EXPORT Status cublasGetMathMode(Handle* handle, int* mode) {
    return get(handle, &Handle::math, mode);
}

CUBLAS_EXPORT Status cublasSetAtomicsMode(Handle* handle, int mode) {
    return set(handle, &Handle::atomics, mode);
}

CUBLAS_EXPORT Status cublasGetAtomicsMode(Handle* handle, int* mode) {
    return get(handle, &Handle::atomics, mode);
}

// None is needed.
CUBLAS_EXPORT Status cublasSetWorkspace_v2(Handle* handle, void*, size_t) {
    return handle ? kSuccess : kNotInitialized;
}

CUBLAS_EXPORT Status cublasGetVersion_v2(Handle*, int* version) {
    if (!version) return kInvalidValue;
    *version = kVersion[0] * 10000 + kVersion[1] * 100 + kVersion[2];
    return kSuccess;
}

CUBLAS_EXPORT Status cublasGetProperty(int part, int* value) {
    if (!value || part < 0 || part > 2) return kInvalidValue;
    *value = kVersion[part];
    return kSuccess;
}

CUBLAS_EXPORT const char* cublasGetStatusName(Status status) {
    switch (status) {
        case kSuccess:
            return "CUBLAS_STATUS_SUCCESS";
        case kNotInitialized:
            return "CUBLAS_STATUS_NOT_INITIALIZED";
        case kAllocFailed:
            return "CUBLAS_STATUS_ALLOC_FAILED";
        case kInvalidValue:
            return "CUBLAS_STATUS_INVALID_VALUE";
        case kArchMismatch:
            return "CUBLAS_STATUS_ARCH_MISMATCH";
        case kMappingError:
            return "CUBLAS_STATUS_MAPPING_ERROR";
        case kExecutionFailed:
            return "CUBLAS_STATUS_EXECUTION_FAILED";
        case kNotSupported:
            return "CUBLAS_STATUS_NOT_SUPPORTED";
        default:
            return "CUBLAS_STATUS_INTERNAL_ERROR";
    }
}

CUBLAS_EXPORT const char* cublasGetStatusString(Status status) {
    return status == kNotSupported ? "this function of cuBLAS is not there on a slice of a GPU"
                                   : cublasGetStatusName(status);
}
