// cuRAND's codes, as NVIDIA's documentation of the API has them.
#pragma once

#include "answers.h"

#define CURAND_EXPORT extern "C" __attribute__((visibility("default")))

namespace curand {

enum Status : int {
    kSuccess = 0,
    kNotInitialized = 101,
    kAllocationFailed = 102,
    kTypeError = 103,
    kOutOfRange = 104,
    kLengthNotMultiple = 105,
    kLaunchFailure = 201,
    kInitializationFailed = 203,
    kArchMismatch = 204,
    kInternalError = 999,
};

// A driver that has not started is no case of its own where numbers are made.
inline constexpr libraries::Words<Status> kWords{kSuccess,    kLaunchFailure, kAllocationFailed,
                                                 kOutOfRange, kArchMismatch,  kLaunchFailure};
constexpr Status meaning(CUresult result) {
    return kWords.of(result);
}
constexpr CUresult result_of(int status) {
    return kWords.result_of(status == kTypeError || status == kLengthNotMultiple ? kOutOfRange : status);
}

}  // namespace curand
