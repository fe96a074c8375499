// The `extra` of a launch: a list of key and value that names one buffer with all parameters, ended by
// CU_LAUNCH_PARAM_END. Read in one way by the client, the software GPU and graphs.
#pragma once

#include <cstddef>
#include <cstring>

#include "cuda_abi.h"

namespace cuda {

struct LaunchBuffer {
    const void* data = nullptr;
    size_t bytes = 0;
};

// False when the list is none that CUDA knows.
inline bool read_launch_buffer(void** extra, LaunchBuffer& buffer) {
    constexpr int kMaxPairs = 8;  // CUDA has two keys; a list without an end must not run away
    for (int pair = 0; extra[2 * pair] != CU_LAUNCH_PARAM_END; ++pair) {
        void* const key = extra[2 * pair];
        void* const value = extra[2 * pair + 1];
        if (pair == kMaxPairs) return false;
        if (key == CU_LAUNCH_PARAM_BUFFER_POINTER) {
            buffer.data = value;
        } else if (key == CU_LAUNCH_PARAM_BUFFER_SIZE && value) {
            std::memcpy(&buffer.bytes, value, sizeof buffer.bytes);
        } else {
            return false;
        }
    }
    return true;
}

}  // namespace cuda
