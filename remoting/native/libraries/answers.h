// What a driver's answer is in a library's words, and what a library's is in the driver's: each library has a status for
// each of these, under names and numbers of its own (LIBRARY/status.h).
#pragma once

#include <cuda.h>

namespace libraries {

template <typename Status>
struct Words {
    Status success, not_initialized, no_memory, invalid, not_supported, failed;

    constexpr Status of(CUresult result) const {
        switch (result) {
            case CUDA_SUCCESS:
                return success;
            case CUDA_ERROR_NOT_INITIALIZED:
            case CUDA_ERROR_INVALID_CONTEXT:
                return not_initialized;
            case CUDA_ERROR_OUT_OF_MEMORY:
                return no_memory;
            case CUDA_ERROR_INVALID_VALUE:
                return invalid;
            case CUDA_ERROR_NOT_SUPPORTED:
            case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
                return not_supported;
            default:
                return failed;
        }
    }

    // Of NVIDIA's library. What it has other words for, it says as one of these.
    constexpr CUresult result_of(int status) const {
        if (status == success) return CUDA_SUCCESS;
        if (status == no_memory) return CUDA_ERROR_OUT_OF_MEMORY;
        if (status == invalid) return CUDA_ERROR_INVALID_VALUE;
        return status == not_supported ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_LAUNCH_FAILED;
    }
};

}  // namespace libraries
