#include "status.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "memory_ledger.h"

namespace worker {
namespace {

std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            (out += '\\') += c;
        } else if (static_cast<unsigned char>(c) < ' ') {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
            out += escaped;
        } else {
            out += c;
        }
    }
    return out + "\"";
}

}  // namespace

// Some of the text is of a client's making, such as a kernel's name: it stays one line, and is not endless.
void log_line(std::string_view text) {
    constexpr size_t kMost = 4000;  // below PIPE_BUF, so that lines of several threads do not mix
    std::string line = "gpu-worker[" + std::to_string(getpid()) + "]: ";
    for (const unsigned char c : text.substr(0, kMost)) {
        line += c < ' ' || c == 0x7f ? ' ' : static_cast<char>(c);
    }
    line += '\n';
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

void LimitedLog::line(std::string_view text) {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    lines_ = std::min(kAtOnce, lines_ + std::chrono::duration<double>(now - counted_).count() * kASecond);
    counted_ = now;
    if (lines_ < 1) {
        ++left_out_;
        return;
    }
    --lines_;
    if (left_out_ > 0) log_line(std::to_string(left_out_).append(" lines like the next one were left out"));
    left_out_ = 0;
    log_line(text);
}

void Status::send(const std::string& packet) {
    // An agent that does not read must not stop the lease: a packet that finds no room is lost, and the next
    // one tells the same.
    ::send(control_fd_, packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Status::report(const MemoryLedger& memory) {
    constexpr uint64_t kMib = 1 << 20;
    const std::string packet = "{\"used_mib\":" + std::to_string((memory.used_of_all() + kMib - 1) / kMib) +
                               ",\"peak_mib\":" + std::to_string((memory.peak_of_all() + kMib - 1) / kMib) +
                               ",\"sessions\":" + std::to_string(sessions.load()) +
                               ",\"launches\":" + std::to_string(launches.load()) +
                               ",\"busy_us\":" + std::to_string(busy_microseconds.load()) + "}";
    const std::lock_guard lock(mutex_);
    if (packet == last_) return;
    send(packet);
    last_ = packet;
}

void Status::fault(std::string_view text) {
    log_line(text);
    const std::lock_guard lock(mutex_);
    send("{\"fault\":" + quoted(text) + "}");
}

}  // namespace worker
