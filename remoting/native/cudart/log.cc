#include "log.h"

#include <stdlib.h>

#include "log/line.h"
#include "thread_state.h"
#include "unsupported.h"

namespace cudart {
namespace {

const char* target() {
    const char* forwarded = getenv("GPU_KERNELS_LOG");
    return forwarded && *forwarded ? forwarded : getenv("GPU_KERNELS_SOFTGPU_LOG");
}

}  // namespace

void tell_user(const std::string& text) {
    log_lines::tell(target(), text);
}

void log_line(const std::string& text) {
    log_lines::append_line(target(), text);
}

cudaError_t unsupported(const char* name, bool* told) {
    if (!__atomic_exchange_n(told, true, __ATOMIC_RELAXED)) {
        cuda::say_unsupported(name, "cudaErrorNotSupported", tell_user);
    }
    return finish(cudaErrorNotSupported);
}

}  // namespace cudart
