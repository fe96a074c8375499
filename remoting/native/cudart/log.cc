#include "log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "thread_state.h"
#include "unsupported.h"

namespace cudart {
namespace {

// One write(2) a line, so that lines of several processes do not mix; a lost line is not worth an error.
void write_line(int fd, const std::string& text) {
    const std::string line = "gpu-kernels: " + text + "\n";
    [[maybe_unused]] const ssize_t written = write(fd, line.data(), line.size());
}

// True when the line has gone to standard error. Opened for each line: programs close descriptors that they
// do not know.
bool write_log(const std::string& text) {
    const char* target = getenv("GPU_KERNELS_LOG");
    if (!target || !*target) target = getenv("GPU_KERNELS_SOFTGPU_LOG");
    if (!target || !*target) return false;
    if (strcmp(target, "stderr") == 0) {
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

void tell_user(const std::string& text) {
    if (!write_log(text)) write_line(STDERR_FILENO, text);
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
