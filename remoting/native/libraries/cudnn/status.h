// cuDNN's codes, as NVIDIA's documentation of the API has them.
#pragma once

#include "answers.h"

#define CUDNN_EXPORT extern "C" __attribute__((visibility("default")))

namespace cudnn {

enum Status : int {
    kSuccess = 0,
    kNotInitialized = 1001,
    kBadParameter = 2000,
    kNullPointer = 2002,
    kNotSupported = 3000,
    kArchMismatch = 3007,
    kInternalError = 4000,
    kOutOfMemory = 4003,  // "host allocation failed"
    kOutOfDeviceMemory = 4004,
    kExecutionFailed = 5000,
};

inline constexpr libraries::Words<Status> kWords{kSuccess, kNotInitialized, kOutOfDeviceMemory, kBadParameter, kNotSupported, kExecutionFailed};
constexpr Status meaning(CUresult result) {
    return kWords.of(result);
}

// By thousands: what kind of error it is.
constexpr int kind_of(int status) {
    return status / 1000;
}
constexpr CUresult result_of(int status) {
    constexpr int kOf = 1000;
    return kWords.result_of(status == kOutOfDeviceMemory ? status : kind_of(status) * kOf);
}

}  // namespace cudnn
