// cuSPARSE's codes, as NVIDIA's documentation of the API has them.
#pragma once

#include "answers.h"

#define CUSPARSE_EXPORT extern "C" __attribute__((visibility("default")))

namespace cusparse {

enum Status : int {
    kSuccess = 0,
    kNotInitialized = 1,
    kAllocFailed = 2,
    kInvalidValue = 3,
    kArchMismatch = 4,
    kExecutionFailed = 6,
    kInternalError = 7,
    kZeroPivot = 9,
    kNotSupported = 10,
    kInsufficientResources = 11,
};

inline constexpr libraries::Words<Status> kWords{kSuccess,      kNotInitialized, kAllocFailed,
                                                 kInvalidValue, kNotSupported,   kExecutionFailed};
constexpr Status meaning(CUresult result) {
    return kWords.of(result);
}
constexpr CUresult result_of(int status) {
    if (status == kInsufficientResources) return CUDA_ERROR_OUT_OF_MEMORY;
    return kWords.result_of(status == kArchMismatch ? kNotSupported : status);
}

}  // namespace cusparse
