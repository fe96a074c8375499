// Which accesses a thread knows to be over because of a lock or a flag: what it has acquired from atomics,
// and what __syncwarp and barriers of some warps have handed on.
//
// A thread's time is cut into epochs. A clock says up to which epoch of each other thread, and which interval
// of each warp, somebody knows. Clocks are shared as long as nobody adds to them, so lanes that have met hold
// one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "exec/check/budget.h"
#include "exec/op.h"

namespace softgpu::check {

using WarpTimes = std::array<uint32_t, kMaxWarps>;

inline void merge(WarpTimes& into, const WarpTimes& from) {
    for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

struct Clock {
    WarpTimes warps{};
    std::vector<uint32_t> threads;
};
using ClockPtr = std::shared_ptr<const Clock>;  // null knows nothing

// Makes clocks, a bounded number of them. Beyond it what would have been known is lost, and then nobody can
// say that two accesses are not ordered.
class ClockMaker {
  public:
    static constexpr size_t kMostBytes = 2u << 20;  // of one block

    void reset(uint32_t threads) {
        threads_ = threads;
        each_ = sizeof(Clock) + threads * sizeof(uint32_t);
        lost_ = ever_lost_ = false;
    }
    bool lost() const { return lost_; }
    bool ever_lost() const { return ever_lost_; }
    void forgive() { lost_ = false; }
    void lose() { lost_ = ever_lost_ = true; }

    ClockPtr join(const ClockPtr& a, const ClockPtr& b) {
        if (!b || a == b || (a && covers(*a, *b))) return a;
        if (!a || covers(*b, *a)) return b;
        const auto made = copy(a);
        if (!made) return a;
        merge(made->warps, b->warps);
        for (size_t i = 0; i < made->threads.size(); ++i)
            made->threads[i] = std::max(made->threads[i], b->threads[i]);
        return made;
    }
    // A clock of its own to add to, null when there are too many.
    std::shared_ptr<Clock> copy(const ClockPtr& from) {
        if (*live_ + each_ > kMostBytes || !Budget::get().take(each_)) {
            lose();
            return nullptr;
        }
        auto clock = from ? std::make_unique<Clock>(*from) : std::make_unique<Clock>();
        clock->threads.resize(threads_);
        *live_ += each_;
        return {clock.release(), [live = live_, each = each_](const Clock* gone) {
                    *live -= each;
                    Budget::get().give(each);
                    delete gone;
                }};
    }

  private:
    static bool covers(const Clock& a, const Clock& b) {
        for (size_t i = 0; i < a.warps.size(); ++i) {
            if (a.warps[i] < b.warps[i]) return false;
        }
        for (size_t i = 0; i < a.threads.size(); ++i) {
            if (a.threads[i] < b.threads[i]) return false;
        }
        return true;
    }

    uint32_t threads_ = 0;
    size_t each_ = 0;  // bytes of a clock
    bool lost_ = false, ever_lost_ = false;
    std::shared_ptr<size_t> live_ = std::make_shared<size_t>(0);
};

// What threads know by one rule of what orders them. The rule is the caller's: it says when a thread gives
// what it knows to an address, and when it takes what others have left there.
class Knowledge {
  public:
    static constexpr size_t kMostAddresses = 4096;

    void reset(uint32_t threads) {
        touched_ = true;
        clear();
        known_.assign(threads, nullptr);
    }
    // All of the block have met: they know everything.
    void clear() {
        if (!touched_) return;
        std::fill(known_.begin(), known_.end(), nullptr);
        left_.clear();
        touched_ = false;
    }

    const ClockPtr& of(uint32_t thread) const { return known_[thread]; }
    void set(uint32_t thread, ClockPtr clock) {
        touched_ = touched_ || clock != nullptr;
        known_[thread] = std::move(clock);
    }
    void learn(ClockMaker& maker, uint32_t thread, const ClockPtr& clock) {
        if (clock) set(thread, maker.join(known_[thread], clock));
    }

    // `base`, and the thread's own epochs up to `epoch`, are to be found at the address from now on.
    void leave(ClockMaker& maker, uint64_t address, const ClockPtr& base, uint32_t thread, uint32_t epoch,
               const WarpTimes& warps) {
        const auto made = maker.copy(base);
        if (!made) return;
        made->threads[thread] = std::max(made->threads[thread], epoch);
        merge(made->warps, warps);
        if (left_.size() >= kMostAddresses && !left_.contains(address)) return maker.lose();
        touched_ = true;
        auto& here = left_[address];
        here = maker.join(made, here);
    }
    ClockPtr at(uint64_t address) const {
        const auto found = left_.find(address);
        return found == left_.end() ? nullptr : found->second;
    }

    static bool covers(const ClockPtr& clock, uint32_t thread, uint32_t epoch, uint32_t warp_time) {
        return clock && (clock->threads[thread] >= epoch || clock->warps[thread / kLanes] >= warp_time);
    }

  private:
    std::vector<ClockPtr> known_;                  // by thread
    std::unordered_map<uint64_t, ClockPtr> left_;  // by address
    bool touched_ = false;
};

}  // namespace softgpu::check
