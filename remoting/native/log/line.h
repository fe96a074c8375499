// Lines for people, of every library that lies in a program's process: "gpu-kernels: TEXT".
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <charconv>
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

// The descriptor that a target `fd:N` names; -1 for one that is not open.
inline int descriptor_of(std::string_view target) noexcept {
    int fd = -1;
    const char* const end = target.data() + target.size();
    const auto [rest, error] = std::from_chars(target.data() + 3, end, fd);
    return error == std::errc() && rest == end && fcntl(fd, F_GETFD) >= 0 ? fd : -1;
}

// Where a line has gone.
enum class Went { nowhere, to_log, to_user };

// In the log that `target` names: `stderr`, `fd:N` for a descriptor that the process was given, or a file
// that is appended to; nowhere where it is null, empty or cannot be opened. A file is opened for each line: a
// descriptor that is kept would be closed or reused by programs that close all they do not know.
inline Went append_line(const char* target, std::string_view text, Breaks breaks = Breaks::keep) noexcept {
    if (!target || !*target) return Went::nowhere;
    const bool to_user = std::string_view(target) == "stderr";
    if (to_user || std::string_view(target).starts_with("fd:")) {
        const int given = to_user ? STDERR_FILENO : descriptor_of(target);
        if (given < 0) return Went::nowhere;
        write_line(given, text, breaks);
        return given == STDERR_FILENO ? Went::to_user : Went::to_log;
    }
    const int fd = open(target, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return Went::nowhere;
    write_line(fd, text, breaks);
    close(fd);
    return Went::to_log;
}

// For what a user must see and can act on: in that log, and on standard error.
inline void tell(const char* target, std::string_view text) noexcept {
    if (append_line(target, text) != Went::to_user) write_line(STDERR_FILENO, text);
}

}  // namespace log_lines
