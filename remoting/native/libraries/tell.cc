#include "tell.h"

#include <unistd.h>

namespace libraries {

// One write(2), so that the lines of several processes do not mix; a lost line is not worth an error.
void tell_user(const std::string& text) {
    const std::string line = "gpu-kernels: " + text + "\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace libraries
