#include "log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

namespace client {
namespace {

// One write(2) a line, so that lines of several processes do not mix; a lost line is not worth an error.
void write_line(int fd, std::string_view text) {
    const std::string line = "gpu-kernels: " + std::string(text) + "\n";
    [[maybe_unused]] const ssize_t written = write(fd, line.data(), line.size());
}

// Opened for each line: a descriptor that is kept would be closed or reused by programs that close them all.
bool to_standard_error(std::string_view text) {
    const char* target = getenv("GPU_KERNELS_LOG");
    if (!target || !*target) return false;
    if (std::string_view(target) == "stderr") {
        write_line(STDERR_FILENO, text);
        return true;
    }
    const int fd = open(target, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    write_line(fd, text);
    close(fd);
    return false;
}

}  // namespace

void tell_user(std::string_view text) {
    if (!to_standard_error(text)) write_line(STDERR_FILENO, text);
}

void log_line(std::string_view text) {
    to_standard_error(text);
}

}  // namespace client
