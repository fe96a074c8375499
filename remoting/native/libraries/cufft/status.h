// cuFFT's codes, as NVIDIA's documentation of the API has them.
#pragma once

#include "answers.h"

#define CUFFT_EXPORT extern "C" __attribute__((visibility("default")))

namespace cufft {

enum Status : int {
    kSuccess = 0,
    kInvalidPlan = 1,
    kAllocFailed = 2,
    kInvalidType = 3,
    kInvalidValue = 4,
    kInternalError = 5,
    kExecFailed = 6,
    kSetupFailed = 7,
    kInvalidSize = 8,
    kNotSupported = 16,
};

inline constexpr libraries::Words<Status> kWords{kSuccess, kExecFailed, kAllocFailed, kInvalidValue, kNotSupported, kExecFailed};
constexpr Status meaning(CUresult result) {
    return kWords.of(result);
}
constexpr CUresult result_of(int status) {
    return kWords.result_of(status == kInvalidType || status == kInvalidSize ? kInvalidValue : status);
}

}  // namespace cufft
