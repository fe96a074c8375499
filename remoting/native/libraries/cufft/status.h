// cuFFT's codes, as NVIDIA's documentation of the API has them.
#pragma once

#include <cuda.h>

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

// What a driver's answer is in cuFFT's words.
constexpr Status meaning(CUresult result) {
    switch (result) {
        case CUDA_SUCCESS:
            return kSuccess;
        case CUDA_ERROR_OUT_OF_MEMORY:
            return kAllocFailed;
        case CUDA_ERROR_INVALID_VALUE:
            return kInvalidValue;
        case CUDA_ERROR_NOT_SUPPORTED:
        case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
            return kNotSupported;
        default:
            return kExecFailed;
    }
}

}  // namespace cufft
