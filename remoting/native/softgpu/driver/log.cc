#include "log.h"

#include <cstdlib>

#include "log/line.h"

namespace softgpu::driver {

void log_line(std::string_view text) noexcept {
    using namespace log_lines;
    if (append_line(std::getenv("GPU_KERNELS_SOFTGPU_LOG"), text, Breaks::drop) == Went::nowhere)
        write_line(STDERR_FILENO, text, Breaks::drop);
}

}  // namespace softgpu::driver
