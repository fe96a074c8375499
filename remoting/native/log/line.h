// Lines for people, of every library that lies in a program's process: "gpu-kernels: TEXT".
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <string_view>

namespace log_lines {

inline constexpr size_t kMaxText = 4000;  // below PIPE_BUF, so that lines of several processes do not mix

// Whether a terminal would obey: the control characters of ASCII, and U+0080 to U+009F, by their second byte
// in UTF-8.
inline bool is_control(unsigned char before, unsigned char c) {
    return c < ' ' || c == 0x7f || (before == 0xc2 && c >= 0x80 && c < 0xa0);
}

// For people a text may have several lines; in a log a line break would begin what looks like another entry.
enum class Breaks { keep, drop };

// In one write(2). Control characters become spaces, as a text may come from another machine. Never fails,
// and leaves errno: a line that is lost is no reason to fail a program.
inline void write_line(int fd, std::string_view text, Breaks breaks = Breaks::keep) noexcept try {
    const int error = errno;
    std::string line = "gpu-kernels: ";
    unsigned char before = 0;
    for (const unsigned char c : text.substr(0, kMaxText)) {
        const bool control = is_control(before, c) && !(c == '\n' && breaks == Breaks::keep);
        if (control && c >= 0x80) line.back() = ' ';
        line += control ? ' ' : static_cast<char>(c);
        before = c;
    }
    line += '\n';
    [[maybe_unused]] const ssize_t written = write(fd, line.data(), line.size());
    errno = error;
} catch (...) {
}

// In the log that `target` names: `stderr`, or a file that is appended to; none where it is null or empty.
// True when the line has gone to standard error. Opened for each line: a descriptor that is kept would be
// closed or reused by programs that close all they do not know.
inline bool append_line(const char* target, std::string_view text) noexcept {
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

}  // namespace log_lines
