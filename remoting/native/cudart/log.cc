#include "log.h"

#include <stdlib.h>

#include "log/line.h"
#include "thread_state.h"
#include "unsupported.h"

namespace cudart {
namespace {

bool write_log(const std::string& text) {
    const char* target = getenv("GPU_KERNELS_LOG");
    if (!target || !*target) target = getenv("GPU_KERNELS_SOFTGPU_LOG");
    return log_lines::append_line(target, text);
}

}  // namespace

void tell_user(const std::string& text) {
    if (!write_log(text)) log_lines::write_line(STDERR_FILENO, text);
}

void log_line(const std::string& text) {
    write_log(text);
}

cudaError_t unsupported(const char* name, bool* told) {
    if (!__atomic_exchange_n(told, true, __ATOMIC_RELAXED)) {
        cuda::say_unsupported(name, "cudaErrorNotSupported", tell_user);
    }
    return finish(cudaErrorNotSupported);
}

}  // namespace cudart
