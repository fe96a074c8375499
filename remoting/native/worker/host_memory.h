// How much of its machine's memory the worker may take for what its sessions make it and its driver remember:
// lanes, handles, images and what is loaded from them, graphs, work that waits in streams. Other leases live
// on the same machine, so there is a limit, for all sessions of the lease together.
//
// What the things cost that CUDA counts is known only to the driver. So the bound is over the whole: the
// process's own memory is looked at, and while it is too large, calls that make it grow are refused: from
// `tight` on to the session that has most, from `full` on to all. What takes much at once (unpacking,
// compiling, images of graphs) is charged before it begins, with what it takes at most, and waits in line
// until that fits below `full`. What remains of the limit above that is for what no look can refuse: lanes,
// whose number follows from the limit, and notices.
//
//   limit = 3/4 what is looked at + 3/16 lanes + 1/32 notices + 1/32 what passes between two looks
//
// Where 3/16 are few lanes, there may be more, and each of those takes its part from what is looked at for as
// long as it is there.
//
// Beside the limit is what the process has before it serves anybody, and the software GPU's slices.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>

#include "host_budget.h"

namespace worker {

// So many bytes in words, rounded up.
std::string mib(uint64_t bytes);

class HostMemory {
  public:
    enum class Level : uint8_t { free, tight, full };

    static constexpr uint64_t kDefaultMib = 4096;

    // Before there are sessions. `slices`: bytes of slices that lie in this process's memory.
    void set_limit(uint64_t mib, uint64_t slices);
    // Also before: how many bytes of the slices lie in the slice file, and not in this process's own memory.
    // It is asked at each look, as what is freed there may be taken here at once.
    void set_slice_file(uint64_t (*bytes)()) { in_file_ = bytes; }

    // For a request of `bytes` that is kept. Looks at the process now and then only: between two looks no
    // more than kUnseen of requests are let through.
    Level level(uint64_t bytes);
    // The same for what may grow to many times its size: loads, links, and graphs. Looks each time.
    Level level_now() { return look(); }

    // How many lanes there may be.
    size_t most_lanes() const;
    // False when there are as many; else remove_lane() has to follow, when its thread ends.
    bool add_lane();
    void remove_lane();

    // What takes up to `bytes` for as long as this lives. Nobody overtakes in the line; whoever is alone and
    // does not fit is refused, and so is, at once, what never fits.
    class Room {
      public:
        // Waits in line, for as long as `goes_on` says so.
        Room(HostMemory& memory, uint64_t bytes, const std::function<bool()>& goes_on);
        // Does not wait.
        Room(HostMemory& memory, uint64_t bytes);
        ~Room();
        Room(const Room&) = delete;
        Room& operator=(const Room&) = delete;
        explicit operator bool() const { return admitted_; }
        // Why it was refused, for the person: how much there was to take, how much there may be, what now.
        std::string refusal(const std::string& what, const std::string& remedy) const;

      private:
        HostMemory& memory_;
        const uint64_t bytes_;
        bool admitted_ = false;
    };

    // Why a graph finds no room among the others.
    std::string no_more_graphs() const;

    HostBudget notices{1ull << 40};  // texts that wait for their sessions
    HostBudget graphs{1ull << 40};   // descriptions, what is built of them, images

  private:
    static constexpr uint64_t kUnseen = 4 << 20;
    static constexpr uint64_t kRequest = 4096;  // what a request counts at least
    static constexpr unsigned kAtOnce = 4;      // in rooms that were waited for
    static constexpr uint64_t kFewLoads = 24 << 20;

    uint64_t tight_bytes() const { return full_bytes() - for_others(); }
    uint64_t full_bytes() const { return apart_ + most_looked_at(); }
    uint64_t most_looked_at() const { return limit_ / 4 * 3 - borrowed(); }
    // What remains for the others when one session has taken all that it may: at least a few small loads, of
    // which each is charged 8 MiB.
    uint64_t for_others() const { return std::min(std::max(limit_ / 8, kFewLoads), most_looked_at() / 2); }
    // What lanes may take beyond their own part.
    uint64_t borrowed() const;
    Level look();
    // What the process has, after giving back what is only held for reuse, if that is more than `wanted`.
    uint64_t own_bytes(uint64_t wanted, bool at_once);
    // With mutex_ held. Whether `bytes` more fit now, beside what is under way.
    bool fits(uint64_t bytes);
    bool wait_in_line(uint64_t bytes, const std::function<bool()>& goes_on);

    uint64_t limit_ = kDefaultMib << 20;
    uint64_t apart_ = 0;
    uint64_t (*in_file_)() = nullptr;
    std::atomic<size_t> lanes_{0};
    std::atomic<uint64_t> unseen_{0};
    std::atomic<Level> level_{Level::free};
    std::atomic<int64_t> trimmed_{0};  // milliseconds of the steady clock
    std::mutex mutex_;                 // of what follows
    std::condition_variable changed_;
    std::deque<const void*> line_;
    uint64_t promised_ = 0;  // of rooms
    unsigned at_once_ = 0;
};

}  // namespace worker
