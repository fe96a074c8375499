// The parameters of a launch: a pointer to each, or in `extra` a list of key and value that names one buffer
// with all of them, ended by CU_LAUNCH_PARAM_END. Read in one way by the client, the software GPU and graphs.
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

// Packs the parameters that `params` or `extra` give as the kernel has them: each of `rows` says where one
// lies, `bytes` where the last ends, and `packed` has room for so many. What is between them becomes zeros.
template <class Rows>
CUresult pack_parameters(const Rows& rows, size_t bytes, void** params, void** extra, std::byte* packed) {
    LaunchBuffer buffer;
    if (params && extra) return CUDA_ERROR_INVALID_VALUE;
    if (extra && !(read_launch_buffer(extra, buffer) && buffer.bytes >= bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (rows.empty()) return CUDA_SUCCESS;
    if (!params && !buffer.data) return CUDA_ERROR_INVALID_VALUE;
    std::memset(packed, 0, bytes);
    size_t i = 0;
    for (const auto& row : rows) {
        const void* from = params ? params[i++] : static_cast<const std::byte*>(buffer.data) + row.offset;
        if (!from) return CUDA_ERROR_INVALID_VALUE;
        std::memcpy(packed + row.offset, from, row.bytes);
    }
    return CUDA_SUCCESS;
}

// The `extra` of a launch whose parameters are packed. It stays where it is, and so do they, while it is
// used.
class LaunchExtra {
  public:
    LaunchExtra(const std::byte* packed, size_t bytes) : bytes_(bytes) {
        list_[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
        list_[1] = const_cast<std::byte*>(packed);
        list_[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
        list_[3] = &bytes_;
        list_[4] = CU_LAUNCH_PARAM_END;
    }
    LaunchExtra(const LaunchExtra&) = delete;
    LaunchExtra& operator=(const LaunchExtra&) = delete;

    void** list() { return bytes_ ? list_ : nullptr; }  // null where the kernel has no parameters

  private:
    size_t bytes_;
    void* list_[5];
};

}  // namespace cuda
