// Where a line for people goes.
#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "../../../remoting/native/log/line.h"
#include "cases.h"

namespace {

using log_lines::append_line;
using log_lines::Breaks;
using log_lines::Went;

std::string taken_from(int fd) {
    char bytes[256];
    const ssize_t got = read(fd, bytes, sizeof bytes);
    return std::string(bytes, got > 0 ? static_cast<size_t>(got) : 0);
}

struct Pipe {
    Pipe() { EXPECT(pipe2(ends, O_NONBLOCK) == 0); }
    int ends[2];
};

}  // namespace

CASE(a_line_goes_to_the_descriptor_that_a_process_was_given) {
    const Pipe pipe;
    EXPECT(append_line(("fd:" + std::to_string(pipe.ends[1])).c_str(), "one\ntwo", Breaks::drop) ==
           Went::to_log);
    EXPECT(taken_from(pipe.ends[0]) == "gpu-kernels: one two\n");
}

CASE(a_line_for_a_descriptor_that_is_not_open_goes_nowhere) {
    const Pipe pipe;
    close(pipe.ends[1]);
    EXPECT(append_line(("fd:" + std::to_string(pipe.ends[1])).c_str(), "lost") == Went::nowhere);
    for (const char* target : {"fd:", "fd:x", "fd:1x", "fd:-1"}) {
        EXPECT(append_line(target, "lost") == Went::nowhere);
        EXPECT(access(target, F_OK) != 0);
    }
}

CASE(a_line_is_appended_to_the_file_that_is_named) {
    char path[] = "/tmp/gpu-kernels-log-XXXXXX";
    const int file = mkstemp(path);
    EXPECT(file >= 0);
    EXPECT(append_line(path, "first") == Went::to_log && append_line(path, "second") == Went::to_log);
    EXPECT(taken_from(file) == "gpu-kernels: first\ngpu-kernels: second\n");
    unlink(path);
    EXPECT(append_line("/no/such/folder/log", "lost") == Went::nowhere);
    EXPECT(append_line("", "lost") == Went::nowhere && append_line(nullptr, "lost") == Went::nowhere);
}

CASE(what_a_user_must_see_is_told_once_where_the_log_is_standard_error) {
    const Pipe pipe;
    EXPECT(dup2(pipe.ends[1], STDERR_FILENO) == STDERR_FILENO);
    log_lines::tell("stderr", "once");
    EXPECT(taken_from(pipe.ends[0]) == "gpu-kernels: once\n");
    log_lines::tell("/no/such/folder/log", "seen");
    EXPECT(taken_from(pipe.ends[0]) == "gpu-kernels: seen\n");
}
