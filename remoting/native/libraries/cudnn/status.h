// cuDNN's codes, as NVIDIA's documentation of the API has them.
#pragma once

#include <cuda.h>

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

// What a driver's answer is in cuDNN's words.
constexpr Status meaning(CUresult result) {
    switch (result) {
        case CUDA_SUCCESS:
            return kSuccess;
        case CUDA_ERROR_NOT_INITIALIZED:
        case CUDA_ERROR_INVALID_CONTEXT:
            return kNotInitialized;
        case CUDA_ERROR_OUT_OF_MEMORY:
            return kOutOfDeviceMemory;
        case CUDA_ERROR_INVALID_VALUE:
            return kBadParameter;
        case CUDA_ERROR_NOT_SUPPORTED:
        case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
            return kNotSupported;
        default:
            return kExecutionFailed;
    }
}

// By thousands: what kind of error it is.
constexpr int kind_of(int status) {
    return status / 1000;
}

}  // namespace cudnn
