#include "log.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

namespace softgpu::driver {
namespace {

constexpr size_t kMaxLine = 4000;  // below PIPE_BUF, so that lines of several processes do not mix

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

void log_line(std::string_view text) noexcept try {
    static const int fd = open_log();
    std::string line = "gpu-kernels: ";
    for (const unsigned char c : text.substr(0, kMaxLine)) line += c < ' ' || c == 0x7f ? ' ' : char(c);
    line += '\n';
    // A log that cannot be written to is no reason to fail a program.
    [[maybe_unused]] const ssize_t written = write(fd, line.data(), line.size());
} catch (...) {
}

}  // namespace softgpu::driver
