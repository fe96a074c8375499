#include "host_memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "status.h"

namespace worker {
namespace {

constexpr uint64_t kMib = 1 << 20;
// A lane at its largest: its buffer, a chunk on its way out, a reply that it keeps, its thread's stack.
constexpr uint64_t kLaneBytes = 2 * kMib;
constexpr size_t kFewestLanes = 16, kUsualLanes = 64, kMostLanes = 1024;

// What of the process's memory is its own and present: neither files nor memory that was only asked for.
// 0 where the system does not say.
uint64_t resident_bytes() {
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

std::string mib(uint64_t bytes) {
    return std::to_string(bytes / kMib + (bytes % kMib != 0)) + " MiB";
}

void HostMemory::set_limit(uint64_t mib, uint64_t slices) {
    limit_ = mib * kMib;
    apart_ = slices + resident_bytes();
    notices.set_limit(limit_ / 32);
    graphs.set_limit(limit_ / 2);
}

size_t HostMemory::most_lanes() const {
    // In a small slice, a program with a pool of threads beside a few others needs more than a share of all.
    const uint64_t usual = std::min<uint64_t>(limit_ / 3 / kLaneBytes, kUsualLanes);
    return std::clamp<size_t>(std::max(limit_ / 16 * 3 / kLaneBytes, usual), kFewestLanes, kMostLanes);
}

bool HostMemory::add_lane() {
    if (lanes_.fetch_add(1) < most_lanes()) return true;
    lanes_.fetch_sub(1);
    return false;
}

void HostMemory::remove_lane() {
    lanes_.fetch_sub(1);
}

uint64_t HostMemory::borrowed() const {
    // A lane that is being refused is counted for a moment, and one of the fewest is never borrowed for.
    const uint64_t lanes = std::min(lanes_.load(std::memory_order_relaxed), most_lanes());
    const uint64_t own = std::max(limit_ / 16 * 3, kFewestLanes * kLaneBytes);
    return lanes * kLaneBytes - std::min(lanes * kLaneBytes, own);
}

HostMemory::Level HostMemory::level(uint64_t bytes) {
    const uint64_t unseen = unseen_.fetch_add(bytes + kRequest, std::memory_order_relaxed);
    if (unseen < kUnseen && level_.load(std::memory_order_relaxed) == Level::free) return Level::free;
    return look();
}

uint64_t HostMemory::own_bytes(uint64_t wanted, bool at_once) {
    const auto looked_at = [this] { return resident_bytes() + (in_file_ ? in_file_() : 0); };
    const uint64_t own = looked_at();
    if (own <= wanted) return own;
    // What was freed may still be held for reuse. Giving it back takes long, so not for each of many calls.
    constexpr int64_t kPause = 100;
    int64_t last = trimmed_.load();
    const int64_t now = now_ms();
    if (!at_once && last != 0 && now - last < kPause) return own;
    if (!trimmed_.compare_exchange_strong(last, now) && !at_once) return own;
    malloc_trim(0);
    return looked_at();
}

HostMemory::Level HostMemory::look() {
    unseen_.store(0, std::memory_order_relaxed);
    const uint64_t own = own_bytes(tight_bytes(), false);
    const Level level = own <= tight_bytes() ? Level::free : own <= full_bytes() ? Level::tight : Level::full;
    if (level_.exchange(level) == Level::free && level != Level::free) {
        log_line("the worker's own memory is " + mib(own - std::min(own, apart_)) + " of " + mib(limit_) +
                 " (the agent's worker_memory_mib): calls that make it grow fail with "
                 "CUDA_ERROR_OUT_OF_MEMORY until the lease's programs destroy streams, events, graphs or "
                 "modules, or end");
    }
    return level;
}

bool HostMemory::fits(uint64_t bytes) {
    const uint64_t taken = promised_ + bytes;
    if (taken > full_bytes()) return false;
    const uint64_t room = full_bytes() - taken;
    return own_bytes(room, true) <= room;
}

bool HostMemory::wait_in_line(uint64_t bytes, const std::function<bool()>& goes_on) {
    constexpr std::chrono::milliseconds kLook{100};
    std::unique_lock lock(mutex_);
    const void* const me = &lock;
    line_.push_back(me);
    bool admitted = false;
    while (goes_on()) {
        if (line_.front() == me && at_once_ < kAtOnce) {
            admitted = fits(bytes);
            if (admitted || promised_ == 0) break;
        }
        changed_.wait_for(lock, kLook);
    }
    std::erase(line_, me);
    if (admitted) {
        promised_ += bytes;
        ++at_once_;
    }
    changed_.notify_all();
    return admitted;
}

HostMemory::Room::Room(HostMemory& memory, uint64_t bytes, const std::function<bool()>& goes_on)
    : memory_(memory), bytes_(bytes) {
    if (bytes <= memory.most_looked_at()) admitted_ = memory.wait_in_line(bytes, goes_on);
}

HostMemory::Room::Room(HostMemory& memory, uint64_t bytes) : memory_(memory), bytes_(bytes) {
    const std::lock_guard lock(memory.mutex_);
    admitted_ = memory.fits(bytes);
    if (!admitted_) return;
    memory.promised_ += bytes;
    ++memory.at_once_;
}

HostMemory::Room::~Room() {
    constexpr uint64_t kLarge = 64 * kMib;
    if (!admitted_) return;
    if (bytes_ >= kLarge) malloc_trim(0);  // whoever waits behind needs it
    {
        const std::lock_guard lock(memory_.mutex_);
        memory_.promised_ -= bytes_;
        --memory_.at_once_;
    }
    memory_.changed_.notify_all();
}

std::string HostMemory::no_more_graphs() const {
    return "this lease's graphs have " + mib(graphs.used()) +
           " of the GPU server's own memory, and may have " + mib(limit_ / 2) +
           ": CUDA_ERROR_OUT_OF_MEMORY. Destroy graphs that you no longer need, or take a larger "
           "slice; the server's admin sets the bound (worker_memory_mib, here " +
           mib(limit_) + ")";
}

std::string HostMemory::Room::refusal(const std::string& what, const std::string& remedy) const {
    return what + " may take " + mib(bytes_) +
           " of the GPU server's own memory, beside the slice, and this lease's programs may take " +
           mib(memory_.most_looked_at()) +
           " for that at a time, with what they have loaded: " + "CUDA_ERROR_OUT_OF_MEMORY. " + remedy +
           ", end processes that you no longer need, or take a larger slice; the server's admin sets the "
           "bound (worker_memory_mib, here " +
           mib(memory_.limit_) + ")";
}

}  // namespace worker
