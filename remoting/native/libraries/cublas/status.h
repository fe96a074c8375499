// cuBLAS' codes, as NVIDIA's documentation of the API has them.
#pragma once

#include "answers.h"

#define CUBLAS_EXPORT extern "C" __attribute__((visibility("default")))

namespace cublas {

enum Status : int {
    kSuccess = 0,
    kNotInitialized = 1,
    kAllocFailed = 3,
    kInvalidValue = 7,
    kArchMismatch = 8,
    kMappingError = 11,
    kExecutionFailed = 13,
    kInternalError = 14,
    kNotSupported = 15,
};

inline constexpr libraries::Words<Status> kWords{kSuccess, kNotInitialized, kAllocFailed, kInvalidValue, kNotSupported, kExecutionFailed};
constexpr Status meaning(CUresult result) {
    return kWords.of(result);
}
constexpr CUresult result_of(int status) {
    return kWords.result_of(status == kArchMismatch ? kNotSupported : status);
}

constexpr const char* name_of(Status status) {
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

}  // namespace cublas
