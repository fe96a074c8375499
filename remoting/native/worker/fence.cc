#include "fence.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <string_view>
#include <thread>

namespace worker {
namespace {

constexpr int kFencedStatus = 3;
constexpr std::string_view kFenced =
    "{\"fault\":\"the time that the agent gave this worker is over; it ends by itself\"}";

uint64_t now_ms() {
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1'000'000;
}

}  // namespace

bool Fence::live_until(uint64_t until_ms) {
    until_ms_.store(until_ms);
    const bool first = timer_ < 0;
    if (first && (timer_ = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC)) < 0) return false;
    itimerspec at{};
    at.it_value.tv_sec = static_cast<time_t>(until_ms / 1000);
    at.it_value.tv_nsec = static_cast<long>(until_ms % 1000) * 1'000'000 + 1;  // all zeros would disarm it
    if (timerfd_settime(timer_, TFD_TIMER_ABSTIME, &at, nullptr) < 0) return false;
    if (first) std::thread([this] { wait(); }).detach();
    return true;
}

// Takes no lock and writes nowhere that could keep it: the log is a pipe that a stopped agent does not read.
void Fence::wait() {
    for (;;) {
        uint64_t expirations;
        const ssize_t got = read(timer_, &expirations, sizeof expirations);
        if (got < 0 && errno == EINTR) continue;
        if (got == sizeof expirations && now_ms() < until_ms_.load()) continue;  // it was moved just now
        send(control_fd_, kFenced.data(), kFenced.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        _exit(kFencedStatus);
    }
}

}  // namespace worker
