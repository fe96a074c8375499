#include "tell.h"

#include "log/line.h"

namespace libraries {

void tell_user(const std::string& text) {
    log_lines::write_line(STDERR_FILENO, text);
}

}  // namespace libraries
