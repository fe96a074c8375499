// How much of its machine's memory the worker may take for what its sessions make it and its driver remember:
// handles, images and what is loaded from them, graphs, work that waits in streams. Those things are counted
// where they are counted by CUDA; what they cost is known only to the driver. So the bound is over the whole:
// the process's own memory is looked at, and while it is too large, calls that make it grow are refused: at
// the limit to the session that has most, a quarter above it to all. Work on what is there goes on up to the
// latter.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace worker {

class HostMemory {
  public:
    enum class Level : uint8_t { free, tight, full };

    static constexpr uint64_t kDefaultMib = 4096;

    // Before there are sessions. `apart`: bytes that lie in this process's memory and
    // count for something else.
    void set_limit(uint64_t mib, uint64_t apart) { limit_ = (mib << 20) + apart; }

    // For a request of `bytes` that is kept. Looks at the process now and then only: between two looks no
    // more than kUnseen of requests are let through.
    Level level(uint64_t bytes);
    // The same for what may grow to many times its size: loads, links, and graphs. Looks each time.
    Level level_now() { return look(); }

    // Of what unpacks and translates a program, which takes memory while it runs: a few at a time.
    class Turn {
      public:
        explicit Turn(HostMemory& memory);
        ~Turn();
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

      private:
        HostMemory& memory_;
    };

  private:
    static constexpr uint64_t kUnseen = 4 << 20;
    static constexpr uint64_t kRequest = 4096;  // what a request counts at least
    static constexpr unsigned kTurns = 4;

    Level look();

    uint64_t limit_ = kDefaultMib << 20;
    std::atomic<uint64_t> unseen_{0};
    std::atomic<Level> level_{Level::free};
    std::atomic<int64_t> trimmed_{0};  // milliseconds of the steady clock
    std::mutex turns_mutex_;
    std::condition_variable turns_changed_;
    unsigned turns_ = 0;
};

}  // namespace worker
