#include "log.h"

#include <fcntl.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "log/line.h"

namespace softgpu::driver {
namespace {

int open_log() {
    const char* where = std::getenv("GPU_KERNELS_SOFTGPU_LOG");
    if (!where || !*where || std::strcmp(where, "stderr") == 0) return STDERR_FILENO;
    if (std::strncmp(where, "fd:", 3) == 0) {
        int fd = -1;
        const char* end = where + std::strlen(where);
        const auto [rest, error] = std::from_chars(where + 3, end, fd);
        return error == std::errc() && rest == end && fcntl(fd, F_GETFD) >= 0 ? fd : STDERR_FILENO;
    }
    const int fd = open(where, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : STDERR_FILENO;
}

}  // namespace

void log_line(std::string_view text) noexcept {
    static const int fd = open_log();
    log_lines::write_line(fd, text, log_lines::Breaks::drop);
}

}  // namespace softgpu::driver
