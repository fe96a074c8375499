// cuSOLVER's codes, as NVIDIA's documentation of the API has them.
#pragma once

#include <cuda.h>

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

// What a driver's answer is in cuSOLVER's words.
constexpr Status meaning(CUresult result) {
    switch (result) {
        case CUDA_SUCCESS:
            return kSuccess;
        case CUDA_ERROR_NOT_INITIALIZED:
        case CUDA_ERROR_INVALID_CONTEXT:
            return kNotInitialized;
        case CUDA_ERROR_OUT_OF_MEMORY:
            return kAllocFailed;
        case CUDA_ERROR_INVALID_VALUE:
            return kInvalidValue;
        case CUDA_ERROR_NOT_SUPPORTED:
        case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
            return kNotSupported;
        default:
            return kExecutionFailed;
    }
}

}  // namespace cusolver
