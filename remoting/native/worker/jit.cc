#include "jit.h"

#include <cstring>

#include "cuda/jit_options.h"

namespace worker {
namespace {

std::string_view text_in(const std::vector<char>& buffer) {
    return buffer.empty() ? std::string_view{}
                          : std::string_view{buffer.data(), strnlen(buffer.data(), buffer.size())};
}

}  // namespace

void JitOptions::add(CUjit_option option, void* value) {
    names_.push_back(option);
    values_.push_back(value);
}

void JitOptions::add_log(std::vector<char>& buffer, uint32_t bytes, CUjit_option text, CUjit_option size) {
    if (bytes == 0) return;
    buffer.assign(bytes, 0);
    add(text, buffer.data());
    add(size, reinterpret_cast<void*>(static_cast<uintptr_t>(bytes)));
}

bool JitOptions::take(wire::Reader& payload, uint32_t count, uint32_t info_log_bytes,
                      uint32_t error_log_bytes) {
    if (count > wire::kMaxJitOptions || info_log_bytes > wire::kMaxLogBytes ||
        error_log_bytes > wire::kMaxLogBytes) {
        return false;
    }
    for (uint32_t i = 0; i < count; ++i) {
        wire::JitOption option;
        if (!payload.take(option)) return false;
        const auto name = static_cast<CUjit_option>(option.option);
        switch (cuda::what_is(name)) {
            case cuda::JitOption::log:
            case cuda::JitOption::time:
            case cuda::JitOption::symbols:
                return false;  // with a pointer; our client does not send them
            case cuda::JitOption::number:
                if (option.value <= UINT32_MAX) {
                    add(name, reinterpret_cast<void*>(static_cast<uintptr_t>(option.value)));
                    break;
                }
                [[fallthrough]];
            default:
                if (!refused_) refused_ = option.option;
        }
    }
    add_log(info_, info_log_bytes, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
    add_log(error_, error_log_bytes, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
    return true;
}

std::string_view JitOptions::info_log() const {
    return text_in(info_);
}
std::string_view JitOptions::error_log() const {
    return text_in(error_);
}

}  // namespace worker
