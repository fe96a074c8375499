#include "jit_options.h"

#include <algorithm>
#include <cstring>

#include "cuda/failure.h"
#include "cuda/jit_options.h"

namespace front {
namespace {

// CUDA reads the lower half of a value.
uint32_t number_in(void* value) {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(value));
}

}  // namespace

JitOptions::JitOptions(unsigned count, const CUjit_option* options, void** values) {
    cuda::require(count <= kMost && (count == 0 || (options && values)));
    for (unsigned i = 0; i < count; ++i) add(options[i], values[i]);
    for (JitLog* log : {&info, &error}) {
        if (!log->text) log->room = 0;
        log->tell("");
    }
}

void JitOptions::add(CUjit_option option, void*& value) {
    switch (cuda::what_is(option)) {
        case cuda::JitOption::number:
            return numbers.push_back({option, number_in(value)});
        case cuda::JitOption::log:
            return add_log(option, value);
        case cuda::JitOption::time:
            time = &value;
            return;
        case cuda::JitOption::threads:
            return;
        case cuda::JitOption::symbols:
            gk_unsupported("a JIT option with the program's symbols");
            cuda::refuse(CUDA_ERROR_NOT_SUPPORTED);
        case cuda::JitOption::none:
            cuda::refuse(CUDA_ERROR_INVALID_VALUE);
    }
}

void JitOptions::add_log(CUjit_option option, void*& value) {
    const bool is_error = option == CU_JIT_ERROR_LOG_BUFFER || option == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
    JitLog& log = is_error ? error : info;
    if (option == CU_JIT_ERROR_LOG_BUFFER || option == CU_JIT_INFO_LOG_BUFFER) {
        log.text = static_cast<char*>(value);
    } else {
        log.room = number_in(value);
        log.size = &value;
    }
}

std::optional<uint32_t> JitOptions::number(CUjit_option option) const {
    const auto found = std::find_if(numbers.rbegin(), numbers.rend(),
                                    [&](const Number& number) { return number.option == option; });
    return found == numbers.rend() ? std::nullopt : std::optional(found->value);
}

void JitLog::tell(std::string_view words) const {
    const size_t length = std::min<size_t>(words.size(), std::max(room, 1u) - 1);
    if (room > 0) {
        std::memcpy(text, words.data(), length);
        text[length] = '\0';
    }
    if (size) *size = reinterpret_cast<void*>(length);
}

void JitOptions::tell_time(std::chrono::duration<float, std::milli> took) const {
    const float milliseconds = took.count();
    if (time) std::memcpy(time, &milliseconds, sizeof milliseconds);
}

}  // namespace front
