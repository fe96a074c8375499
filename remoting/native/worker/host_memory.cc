#include "host_memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "status.h"

namespace worker {
namespace {

// What of the process's memory is its own and present: neither files nor memory that was only asked for.
// 0 where the system does not say.
uint64_t own_bytes() {
    char text[128];
    const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    const ssize_t got = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0) close(file);
    if (got <= 0) return 0;
    text[got] = '\0';
    unsigned long long resident = 0, shared = 0;
    if (std::sscanf(text, "%*u %llu %llu", &resident, &shared) != 2 || shared > resident) return 0;
    static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return (resident - shared) * page;
}

int64_t now_ms() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

HostMemory::Level HostMemory::level(uint64_t bytes) {
    const uint64_t unseen = unseen_.fetch_add(bytes + kRequest, std::memory_order_relaxed);
    if (unseen < kUnseen && level_.load(std::memory_order_relaxed) == Level::free) return Level::free;
    return look();
}

HostMemory::Level HostMemory::look() {
    unseen_.store(0, std::memory_order_relaxed);
    uint64_t own = own_bytes();
    if (own > limit_) {
        // What was freed may still be held for reuse. Giving it back takes long, so not for each of many
        // calls.
        constexpr int64_t kPause = 100;
        int64_t last = trimmed_.load();
        const int64_t now = now_ms();
        if ((last == 0 || now - last >= kPause) && trimmed_.compare_exchange_strong(last, now)) {
            malloc_trim(0);
            own = own_bytes();
        }
    }
    const Level level = own <= limit_ ? Level::free : own <= limit_ + limit_ / 4 ? Level::tight : Level::full;
    if (level_.exchange(level) == Level::free && level != Level::free) {
        log_line(
            "the worker's own memory is " + std::to_string(own >> 20) + " MiB, and may be " +
            std::to_string(limit_ >> 20) +
            " MiB: calls that make it grow fail with CUDA_ERROR_OUT_OF_MEMORY until the lease's programs "
            "destroy streams, events, graphs or modules, or end");
    }
    return level;
}

HostMemory::Turn::Turn(HostMemory& memory) : memory_(memory) {
    std::unique_lock lock(memory_.turns_mutex_);
    memory_.turns_changed_.wait(lock, [&] { return memory_.turns_ < kTurns; });
    ++memory_.turns_;
}

HostMemory::Turn::~Turn() {
    {
        const std::lock_guard lock(memory_.turns_mutex_);
        --memory_.turns_;
    }
    memory_.turns_changed_.notify_one();
}

}  // namespace worker
