#include "log.h"

#include <stdlib.h>

#include "log/line.h"

namespace client {

void tell_user(std::string_view text) {
    log_lines::tell(getenv("GPU_KERNELS_LOG"), text);
}

void log_line(std::string_view text) {
    log_lines::append_line(getenv("GPU_KERNELS_LOG"), text);
}

}  // namespace client
