#include "jit.h"

#include <algorithm>
#include <cstring>

namespace client {
namespace {

void write_log(std::string_view text, char* to, size_t capacity, void** size_out) {
    const size_t bytes = capacity ? std::min(text.size(), capacity - 1) : 0;
    if (to && capacity) {
        std::memcpy(to, text.data(), bytes);
        to[bytes] = 0;
    }
    if (size_out) *size_out = reinterpret_cast<void*>(bytes);
}

}  // namespace

CUresult JitOptions::add(unsigned count, const CUjit_option* options, void** values) {
    if (count > wire::kMaxJitOptions || (count && (!options || !values))) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i) {
        const auto number = reinterpret_cast<uint64_t>(values[i]);
        switch (options[i]) {
            case CU_JIT_INFO_LOG_BUFFER:
                info_ = static_cast<char*>(values[i]);
                break;
            case CU_JIT_ERROR_LOG_BUFFER:
                error_ = static_cast<char*>(values[i]);
                break;
            case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
                info_bytes_ = std::min<uint64_t>(number & UINT32_MAX, wire::kMaxLogBytes);
                info_size_out_ = &values[i];
                break;
            case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
                error_bytes_ = std::min<uint64_t>(number & UINT32_MAX, wire::kMaxLogBytes);
                error_size_out_ = &values[i];
                break;
            case CU_JIT_WALL_TIME:
                break;
            case CU_JIT_GLOBAL_SYMBOL_NAMES:
            case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
            case CU_JIT_GLOBAL_SYMBOL_COUNT:
            case CU_JIT_REFERENCED_KERNEL_NAMES:
            case CU_JIT_REFERENCED_KERNEL_COUNT:
            case CU_JIT_REFERENCED_VARIABLE_NAMES:
            case CU_JIT_REFERENCED_VARIABLE_COUNT:
                return CUDA_ERROR_NOT_SUPPORTED;
            default:
                numbers_.push_back({static_cast<uint32_t>(options[i]), 0, number});
        }
    }
    return numbers_.size() <= wire::kMaxJitOptions ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool JitOptions::take_logs(wire::Reader& reply, uint32_t info_bytes, uint32_t error_bytes) {
    std::string_view info, error;
    if (!reply.take_text(info_bytes, info) || !reply.take_text(error_bytes, error)) return false;
    write_log(info, info_, info_bytes_, info_size_out_);
    write_log(error, error_, error_bytes_, error_size_out_);
    return true;
}

}  // namespace client
