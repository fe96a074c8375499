// cuRAND's codes, as NVIDIA's documentation of the API has them.
#pragma once

#include <cuda.h>

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

// What a driver's answer is in cuRAND's words.
constexpr Status meaning(CUresult result) {
    switch (result) {
        case CUDA_SUCCESS:
            return kSuccess;
        case CUDA_ERROR_OUT_OF_MEMORY:
            return kAllocationFailed;
        case CUDA_ERROR_INVALID_VALUE:
            return kOutOfRange;
        case CUDA_ERROR_NOT_SUPPORTED:
        case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
            return kArchMismatch;
        default:
            return kLaunchFailure;
    }
}

}  // namespace curand
