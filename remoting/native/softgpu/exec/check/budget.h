// What the teaching mode may take of the host's memory: one bound for all that it keeps in this process, and
// so for a lease, which has a process of its own. What does not fit is not looked at, and a line says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace softgpu::check {

class Budget {
  public:
    static constexpr uint64_t kMost = 256u << 20;

    static Budget& get() {
        static Budget only;
        return only;
    }
    // A quarter of the devices' memory, at most kMost.
    void set_device_bytes(uint64_t bytes) {
        const uint64_t quarter = bytes / 4;
        bound_.store(quarter < kMost ? quarter : kMost, std::memory_order_relaxed);
    }
    bool take(uint64_t bytes) {
        const uint64_t bound = bound_.load(std::memory_order_relaxed);
        if (taken_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= bound) return true;
        give(bytes);
        return false;
    }
    void give(uint64_t bytes) { taken_.fetch_sub(bytes, std::memory_order_relaxed); }

  private:
    std::atomic<uint64_t> bound_{kMost}, taken_{0};
};

// A part of the budget, given back at the end.
class Room {
  public:
    Room() = default;
    Room(Room&& from) noexcept : bytes_(std::exchange(from.bytes_, 0)) {}
    Room& operator=(Room&& from) noexcept {
        Budget::get().give(bytes_);
        bytes_ = std::exchange(from.bytes_, 0);
        return *this;
    }
    ~Room() { Budget::get().give(bytes_); }

    // As much as this and no more; false leaves it with nothing.
    bool take(uint64_t bytes) {
        Budget::get().give(std::exchange(bytes_, 0));
        if (!Budget::get().take(bytes)) return false;
        bytes_ = bytes;
        return true;
    }

  private:
    uint64_t bytes_ = 0;
};

}  // namespace softgpu::check
