#include "exec/check/order.h"

#include "exec/check/access.h"

namespace softgpu::check {
namespace {

template <class F>
void each_lane(uint32_t lanes, F f) {
    for (; lanes != 0; lanes &= lanes - 1) f(uint32_t(__builtin_ctz(lanes)));
}

}  // namespace

void Order::reset(uint32_t warps) {
    const uint32_t threads = warps * kLanes;
    time_.fill(1);
    for (auto& known : known_) known.fill(0);
    gone_.fill(0);
    came_.fill({});
    epoch_.assign(threads, 1);
    fenced_.reset(threads);
    passed_.reset(threads);
    pending_.assign(threads, nullptr);
    fences_.assign(threads, {});
    copies_.clear();
    fenced_maker_.reset(threads);
    passed_maker_.reset(threads);
}

Stamp Order::stamp(const Op* op, uint32_t thread, uint8_t flags) const {
    Stamp made{op, time_[thread / kLanes], epoch_[thread], uint16_t(thread), flags, 0};
    if (flags & Stamp::is_later) made.group = copies_.empty() ? 1 : copies_[thread].open;
    return made;
}

bool Order::copy_is_done(const Stamp& copy) const {
    return !copies_.empty() && uint8_t(copies_[copy.thread].done - copy.group) < 128;
}

Ordered Order::before(const Stamp& earlier, uint32_t thread) const {
    uint32_t warp_time = earlier.warp_time, epoch = earlier.epoch;
    if (earlier.flags & Stamp::is_later) {
        if (!copy_is_done(earlier)) return Ordered::no;
        const Copies& copies = copies_[earlier.thread];
        if (uint8_t(copies.done - earlier.group) >= kGroupsKept) return Ordered::yes;
        const auto& ended = copies.ended[earlier.group % kGroupsKept];
        warp_time = ended.warp_time, epoch = ended.epoch;
    }
    if (earlier.thread == thread) return Ordered::yes;
    const uint32_t warp = thread / kLanes, other = earlier.thread / kLanes;
    if (warp == other ? warp_time < time_[warp] : known_[warp][other] >= warp_time) return Ordered::yes;
    if (fenced_maker_.lost() || Knowledge::covers(fenced_.of(thread), earlier.thread, epoch, warp_time))
        return Ordered::yes;
    return Knowledge::covers(passed_.of(thread), earlier.thread, epoch, warp_time) ? Ordered::passed
                                                                                   : Ordered::no;
}

WarpTimes Order::known_to(uint32_t warp) const {
    WarpTimes times = known_[warp];
    times[warp] = std::max(times[warp], time_[warp] - 1);
    return times;
}

void Order::acquire_pending(uint32_t thread) {
    if (!pending_[thread]) return;
    fenced_.learn(fenced_maker_, thread, pending_[thread]);
    pending_[thread] = nullptr;
}

void Order::read(uint64_t address, uint32_t thread, uint32_t access) {
    if (const ClockPtr left = fenced_.at(address)) {
        if (access & acquires)
            fenced_.learn(fenced_maker_, thread, left);
        else
            pending_[thread] = fenced_maker_.join(pending_[thread], left);
    }
    if (access & passes) passed_.learn(passed_maker_, thread, passed_.at(address));
}

void Order::wrote(uint64_t address, uint32_t thread, uint32_t access) {
    const WarpTimes times = known_to(thread / kLanes);
    if (access & releases)
        fenced_.leave(fenced_maker_, address, fenced_.of(thread), thread, epoch_[thread], times);
    else if (const Fence& last = fences_[thread]; last.epoch != 0)
        fenced_.leave(fenced_maker_, address, last.known, thread, last.epoch, times);
    if (access & passes)
        passed_.leave(passed_maker_, address, passed_.of(thread), thread, epoch_[thread], times);
    if (access & (releases | passes)) ++epoch_[thread];
}

void Order::fence(uint32_t thread) {
    acquire_pending(thread);
    fences_[thread] = {fenced_.of(thread), epoch_[thread]++};
}

void Order::arrive(uint32_t barrier, uint32_t warp, uint32_t lanes, bool waits) {
    Came& came = came_[barrier];
    merge(came.knows, known_[warp]);
    came.knows[warp] = std::max(came.knows[warp], time_[warp]);
    each_lane(lanes, [&](uint32_t lane) {
        const uint32_t thread = warp * kLanes + lane;
        acquire_pending(thread);
        came.clock = fenced_maker_.join(came.clock, fenced_.of(thread));
        came.passed = passed_maker_.join(came.passed, passed_.of(thread));
    });
    if (waits)
        came.waiting |= 1u << warp;
    else
        ++time_[warp];
}

void Order::complete(uint32_t barrier, uint32_t live_warps) {
    Came& came = came_[barrier];
    merge(came.knows, gone_);
    const bool all = (live_warps & ~came.waiting) == 0;
    each_lane(came.waiting, [&](uint32_t warp) {
        merge(known_[warp], came.knows);
        ++time_[warp];
        for (uint32_t lane = 0; lane < kLanes && !all; ++lane) {
            fenced_.learn(fenced_maker_, warp * kLanes + lane, came.clock);
            passed_.learn(passed_maker_, warp * kLanes + lane, came.passed);
        }
    });
    came = {};
    if (!all) return;
    fenced_.clear();
    passed_.clear();
    for (Fence& fence : fences_) fence = {};
    fenced_maker_.forgive();
    passed_maker_.forgive();
}

void Order::exited(uint32_t warp, uint32_t lanes) {
    each_lane(lanes, [&](uint32_t lane) { fence(warp * kLanes + lane); });
    merge(gone_, known_[warp]);
    gone_[warp] = std::max(gone_[warp], time_[warp]);
}

void Order::arrive_in_warp(uint32_t warp, uint32_t lanes) {
    each_lane(lanes, [&](uint32_t lane) { fence(warp * kLanes + lane); });
}

void Order::leave_in_warp(uint32_t warp, uint32_t lanes, uint32_t members) {
    const uint32_t first = warp * kLanes;
    ClockPtr known, passed;
    each_lane(members, [&](uint32_t lane) {
        known = fenced_maker_.join(known, fenced_.of(first + lane));
        passed = passed_maker_.join(passed, passed_.of(first + lane));
    });
    const auto made = fenced_maker_.copy(known);
    if (!made) return;
    each_lane(members, [&](uint32_t lane) {
        uint32_t& epoch = made->threads[first + lane];
        epoch = std::max(epoch, epoch_[first + lane] - 1);
    });
    each_lane(lanes, [&](uint32_t lane) {
        fenced_.set(first + lane, made);
        if (passed) passed_.set(first + lane, passed);
    });
}

void Order::end_group(uint32_t thread) {
    if (copies_.empty()) copies_.assign(epoch_.size(), {});
    ++copies_[thread].open;
}

void Order::wait_groups(uint32_t thread, uint32_t open) {
    if (copies_.empty()) copies_.assign(epoch_.size(), {});
    Copies& copies = copies_[thread];
    const auto last = uint8_t(copies.open - 1 - std::min(open, 127u));
    if (uint8_t(last - copies.done) >= 128) return;  // none more than before
    while (copies.done != last) {
        ++copies.done;
        copies.ended[copies.done % kGroupsKept] = {time_[thread / kLanes], epoch_[thread]};
    }
}

}  // namespace softgpu::check
