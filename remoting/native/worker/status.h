// What the agent is told, and what stands on standard error (the worker's log).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace worker {

void log_line(std::string_view text);

// Lines of one kind that clients cause: so many at once, then two a second. The next one tells how many were
// left out. Any thread.
class LimitedLog {
  public:
    void line(std::string_view text);

  private:
    static constexpr double kAtOnce = 20, kASecond = 2;

    std::mutex mutex_;
    double lines_ = kAtOnce;  // that may be written now
    std::chrono::steady_clock::time_point counted_ = std::chrono::steady_clock::now();
    uint64_t left_out_ = 0;
};

class MemoryLedger;

class Status {
  public:
    explicit Status(int control_fd) : control_fd_(control_fd) {}

    std::atomic<uint64_t> sessions{0};
    std::atomic<uint64_t> launches{0};
    std::atomic<uint64_t> busy_microseconds{0};

    // Sends the numbers if they have changed since the last time.
    void report(const MemoryLedger& memory);
    // Sends `{"fault": text}`, and logs it.
    void fault(std::string_view text);

  private:
    void send(const std::string& packet);

    const int control_fd_;
    std::mutex mutex_;
    std::string last_;
};

}  // namespace worker
