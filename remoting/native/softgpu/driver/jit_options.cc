#include "jit_options.h"

#include <algorithm>
#include <cstring>

#include "module.h"
#include "session.h"

namespace softgpu::driver {

namespace {

// A line for each kernel that does not run though the program is loaded; empty for nearly all programs.
std::string refusals_of(const Program& program) {
    std::string lines;
    for (const RefusedKernel& kernel : program.refused()) lines += refusal_of(kernel) + "\n";
    return lines;
}

}  // namespace

JitLog::JitLog(unsigned count, CUjit_option* options, void** values) {
    if (!options || !values) return;
    for (unsigned i = 0; i < count; ++i) {
        const auto size = static_cast<unsigned>(reinterpret_cast<uintptr_t>(values[i]));
        switch (options[i]) {
            case CU_JIT_ERROR_LOG_BUFFER:
                error_.text = static_cast<char*>(values[i]);
                break;
            case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
                error_.bytes = size;
                error_.size_slot = &values[i];
                break;
            case CU_JIT_INFO_LOG_BUFFER:
                info_.text = static_cast<char*>(values[i]);
                break;
            case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
                info_.bytes = size;
                info_.size_slot = &values[i];
                break;
            case CU_JIT_MAX_REGISTERS:
                max_registers_ = size;
                break;
            default:
                break;
        }
    }
}

void JitLog::Buffer::put(const std::string& message) {
    if (!text || bytes == 0) return;
    const size_t length = std::min<size_t>(message.size(), bytes - 1);
    std::memcpy(text, message.data(), length);
    text[length] = '\0';
    if (size_slot) *size_slot = reinterpret_cast<void*>(length);
}

void JitLog::error(const std::string& text) {
    error_.put(text);
}

void JitLog::info(const std::string& text) {
    info_.put(text);
}

std::vector<NamedText> read_logged(const std::function<std::vector<NamedText>()>& read, JitLog& log) {
    try {
        return read();
    } catch (const RefusedImage& refused) {
        if (log.takes_errors()) {
            log.error(refused.why);
        } else {
            current_session()->tell(kGkTextFault, refused.why);
        }
        throw;
    }
}

std::shared_ptr<const Program> link_logged(std::vector<NamedText>& texts, JitLog& log) {
    limit_registers(texts, log.max_registers());
    std::string error;
    try {
        auto program = link_program(texts, &error);
        log.error("");
        log.info(refusals_of(*program));
        return program;
    } catch (const Failure&) {
        log.error(error);
        throw;
    }
}

}  // namespace softgpu::driver
