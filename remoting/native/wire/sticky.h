// Which errors end a context, as CUDA documents it: every later call returns them again. Client and worker go
// by one list, so that they agree on when a process needs a new worker.
#pragma once

#include "cuda_abi.h"

namespace wire {

inline bool is_sticky(CUresult status) {
    switch (status) {
        case CUDA_ERROR_ECC_UNCORRECTABLE:
        case CUDA_ERROR_NVLINK_UNCORRECTABLE:
        case CUDA_ERROR_ILLEGAL_ADDRESS:
        case CUDA_ERROR_LAUNCH_TIMEOUT:
        case CUDA_ERROR_ASSERT:
        case CUDA_ERROR_HARDWARE_STACK_ERROR:
        case CUDA_ERROR_ILLEGAL_INSTRUCTION:
        case CUDA_ERROR_MISALIGNED_ADDRESS:
        case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        case CUDA_ERROR_INVALID_PC:
        case CUDA_ERROR_LAUNCH_FAILED:
            return true;
        default:
            return false;
    }
}

}  // namespace wire
