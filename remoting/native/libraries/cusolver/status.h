// cuSOLVER's codes, as NVIDIA's documentation of the API has them.
#pragma once

#include "answers.h"

namespace cusolver {

enum Status : int {
    kSuccess = 0,
    kNotInitialized = 1,
    kAllocFailed = 2,
    kInvalidValue = 3,
    kArchMismatch = 4,
    kExecutionFailed = 6,
    kInternalError = 7,
    kNotSupported = 9,
};

inline constexpr libraries::Words<Status> kWords{kSuccess, kNotInitialized, kAllocFailed, kInvalidValue, kNotSupported, kExecutionFailed};
constexpr Status meaning(CUresult result) {
    return kWords.of(result);
}
constexpr CUresult result_of(int status) {
    return kWords.result_of(status == kArchMismatch ? kNotSupported : status);
}

}  // namespace cusolver
