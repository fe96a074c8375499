// What this process has sent and asked for, of all its lives: how much of the device's memory was copied
// between client and worker, and how often a thread has waited for a reply.
#pragma once

#include <atomic>
#include <cstdint>

struct GkTraffic {
    uint64_t copies;        // frames that carried device memory, either way
    uint64_t copied_bytes;  // of it
    uint64_t waits;         // calls that waited for the worker
};

namespace client {

class Traffic {
  public:
    static Traffic& get() {
        static Traffic traffic;
        return traffic;
    }

    void copied(uint64_t bytes) {
        copies_.fetch_add(1, std::memory_order_relaxed);
        copied_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    }
    void waits() { waits_.fetch_add(1, std::memory_order_relaxed); }
    GkTraffic now() const { return {copies_.load(), copied_bytes_.load(), waits_.load()}; }

  private:
    std::atomic<uint64_t> copies_{0}, copied_bytes_{0}, waits_{0};
};

}  // namespace client
