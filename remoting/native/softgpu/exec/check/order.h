// What happens before what in a block.
//
// A warp's time is cut into intervals, one ends at each barrier that the warp has passed; a thread's into
// epochs, one ends at each fence and __syncwarp. A barrier gives each warp that waits there what all that
// came know. A fence and an atomic, volatile or relaxed write after it leave at the address what the thread
// knew at the fence; who reads it so, and has a fence after that, knows it too. An access is ordered before a
// thread's next one when the thread knows of its interval or epoch, whatever order this machine ran the warps
// in: where there are only barriers, the findings do not depend on it.
#pragma once

#include "exec/check/clocks.h"

namespace softgpu::check {

// Who accessed something, and when.
struct Stamp {
    enum Flag : uint8_t { is_strong = 1, by_volatile = 2, by_many = 4, is_later = 8, by_compare = 16 };
    const Op* op = nullptr;  // null: nobody
    uint32_t warp_time = 0, epoch = 0;
    uint16_t thread = 0;
    uint8_t flags = 0;
    uint8_t group = 0;  // of a copy that is done later
};

// passed: by a lock or a flag, but one that has no fence.
enum class Ordered : uint8_t { no, passed, yes };

class Order {
  public:
    void reset(uint32_t warps);
    Stamp stamp(const Op* op, uint32_t thread, uint8_t flags) const;
    Ordered before(const Stamp& earlier, uint32_t thread) const;
    bool copy_is_done(const Stamp& copy) const;
    // More locks and flags than could be followed: of some accesses it is not known whether they are ordered.
    bool ever_lost() const { return fenced_maker_.ever_lost(); }

    // Atomic, volatile and relaxed accesses, before and after what they do.
    void read(uint64_t address, uint32_t thread, uint32_t access);
    void wrote(uint64_t address, uint32_t thread, uint32_t access);
    void fence(uint32_t thread);

    // Lanes of a warp come to a barrier; with `waits` false they only say that they have been there.
    void arrive(uint32_t barrier, uint32_t warp, uint32_t lanes, bool waits);
    void complete(uint32_t barrier, uint32_t live_warps);
    // Threads that have ended count as having come to every later barrier.
    void exited(uint32_t warp, uint32_t lanes);

    // __syncwarp: before it, and after it, for the lanes that are there now.
    void arrive_in_warp(uint32_t warp, uint32_t lanes);
    void leave_in_warp(uint32_t warp, uint32_t lanes, uint32_t members);

    // cp.async: a thread's open group ends; all but its last `open` groups are done.
    void end_group(uint32_t thread);
    void wait_groups(uint32_t thread, uint32_t open);

  private:
    struct Fence {
        ClockPtr known;
        uint32_t epoch = 0;  // 0: none yet
    };
    struct Came {
        WarpTimes knows{};
        ClockPtr clock, passed;
        uint32_t waiting = 0;
    };
    static constexpr uint32_t kGroupsKept = 8;
    struct Copies {
        uint8_t open = 1, done = 0;  // numbers of groups, that go round
        struct {
            uint32_t warp_time, epoch;
        } ended[kGroupsKept];
    };
    WarpTimes known_to(uint32_t warp) const;
    void acquire_pending(uint32_t thread);

    std::array<WarpTimes, kMaxWarps> known_{};  // [warp][other]: the last interval of the other that it knows
    WarpTimes time_{}, gone_{};
    std::array<Came, kBarriers> came_{};
    std::vector<uint32_t> epoch_;  // by thread
    ClockMaker fenced_maker_, passed_maker_;
    Knowledge fenced_, passed_;      // through fences; through locks and flags alone
    std::vector<ClockPtr> pending_;  // read by a thread that has had no fence since
    std::vector<Fence> fences_;
    std::vector<Copies> copies_;
};

}  // namespace softgpu::check
