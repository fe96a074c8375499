#include "exec/gang.h"

#include <algorithm>
#include <bit>

#include "exec/image.h"
#include "exec/launch.h"
#include "exec/schedule.h"

namespace softgpu {
namespace {

uint32_t predicate(const Gang* gang, uint32_t warp, uint32_t slot) {
    return *reinterpret_cast<const uint32_t*>(gang->slots[warp] + slot);
}

// Each warp goes on from its own place.
const Op* fall_apart(Gang* gang, const Op* const* places) {
    for (uint32_t w = 0; w < gang->count; ++w) {
        Warp* warp = gang->warps[w];
        if (places[w] == nullptr) continue;
        park(warp, places[w], warp->mask, Wait::ready);
        warp->stop = Stop::met;
    }
    return nullptr;
}

// All warps wait at one place.
const Op* halt(Gang* gang, const Op* at, Stop stop) {
    for (uint32_t w = 0; w < gang->count; ++w) {
        park(gang->warps[w], at, gang->warps[w]->mask, Wait::ready);
        gang->warps[w]->stop = stop;
    }
    return nullptr;
}

const Op* step(Gang* gang, const Op* to) {
    return to < gang->wait_pc ? to : halt(gang, to, Stop::met);
}

const Op* go(Gang* gang, const Op* from, const Op* to) {
    if (to <= from && --gang->warps[0]->budget < 0) return halt(gang, to, Stop::yielded);
    return step(gang, to);
}

}  // namespace

const Op* each_warp(const Op* op, Gang* gang) {
    const Op* places[kGangWarps];
    bool together = true;
    for (uint32_t w = 0; w < gang->count; ++w) {
        Warp* warp = gang->warps[w];
        places[w] = op->fn(op, warp);
        if (places[w] == nullptr && warp->stop == Stop::fault) return nullptr;
        together &= places[w] != nullptr && places[w] == places[0] && warp->split_count == 0;
        gang->slots[w] = warp->slots;
    }
    return together ? places[0] : fall_apart(gang, places);
}

const Op* gang_bra(const Op* op, Gang* gang) {
    return go(gang, op, op + op->jump);
}

const Op* gang_bra_if(const Op* op, Gang* gang) {
    uint32_t all = UINT32_MAX, none = UINT32_MAX;
    for (uint32_t w = 0; w < gang->count; ++w) {
        const uint32_t taken = predicate(gang, w, op->a) ^ uint32_t(op->imm), mask = gang->warps[w]->mask;
        all &= taken | ~mask;
        none &= ~(taken & mask);
    }
    if (all == UINT32_MAX) return go(gang, op, op + op->jump);
    return none == UINT32_MAX ? step(gang, op + 1) : each_warp(op, gang);
}

const Op* gang_join(const Op* op, Gang* gang) {
    return step(gang, op + 1);
}

const Op* gang_guard(const Op* op, Gang* gang) {
    uint32_t all = UINT32_MAX, none = UINT32_MAX;
    for (uint32_t w = 0; w < gang->count; ++w) {
        const uint32_t chosen = predicate(gang, w, op->a) ^ uint32_t(op->imm), mask = gang->warps[w]->mask;
        all &= chosen | ~mask;
        none &= ~(chosen & mask);
    }
    if (none == UINT32_MAX) return op + 2;
    if (all == UINT32_MAX) return op + 1;
    // The warps that are chosen whole go together; an instruction with a guard never waits.
    Gang whole{0, kNoWait, gang->full, gang->block, {}, {}};
    for (uint32_t w = 0; w < gang->count; ++w) {
        Warp* warp = gang->warps[w];
        const uint32_t mask = warp->mask;
        const uint32_t chosen = (predicate(gang, w, op->a) ^ uint32_t(op->imm)) & mask;
        if (chosen == 0) continue;
        if (chosen == mask) {
            whole.slots[whole.count] = gang->slots[w];
            whole.warps[whole.count++] = warp;
            continue;
        }
        warp->mask = chosen;
        warp->partial = 1;
        const Op* next = op[1].fn(op + 1, warp);
        warp->mask = mask;
        warp->partial = 0;
        if (next == nullptr) return nullptr;
    }
    if (whole.count != 0 && op[1].gang(op + 1, &whole) == nullptr) return nullptr;
    return op + 2;
}

const Op* gang_exit(const Op* op, Gang* gang) {
    Block* block = gang->block;
    if (gang->warps[0]->frame->depth != 0 || block->barriers_used != 0) return each_warp(op, gang);
    for (uint32_t w = 0; w < gang->count; ++w) {
        gang->warps[w]->live = 0;
        gang->warps[w]->stop = Stop::exited;
    }
    block->warps_exited += gang->count;
    return nullptr;
}

// A barrier that all warps of the block come to together is none.
const Op* gang_barrier(const Op* op, Gang* gang) {
    const Block* block = gang->block;
    if (op->b != kNoSlot || block->barriers_used != 0 ||
        gang->count != block->warp_count - block->warps_exited)
        return each_warp(op, gang);
    uint32_t first = 0;
    for (uint32_t w = 0; w < gang->count; ++w) {
        const uint32_t lane = uint32_t(std::countr_zero(gang->warps[w]->mask));
        const uint32_t id = reinterpret_cast<const uint32_t*>(gang->slots[w] + op->a)[lane];
        if (w == 0) first = id;
        if (id != first || id >= kBarriers) return each_warp(op, gang);
    }
    return op + 1;
}

namespace {

// Between two ends of turns: warps that come from place to place without waiting for anything, as in a loop
// that each goes through in its own way, must let the others have their turns.
constexpr uint32_t kRunsATurn = 1024;

struct Group {
    const Split* earliest = nullptr;  // of all candidates
    Warp* warp = nullptr;             // whose that is; one that is not whole before one that is
    uint32_t members = 0;             // whole warps at that place
    const Op* others = kNoWait;       // the earliest of the rest
};

bool is_whole(const Warp& warp) {
    return warp.split_count == 1 && warp.splits[0].mask == warp.live;
}

// The split that a warp would run next, null when none is ready.
const Split* next_split(const Warp& warp) {
    const Split* best = nullptr;
    for (uint32_t i = 0; i < warp.split_count; ++i) {
        const Split& split = warp.splits[i];
        if (split.wait == Wait::ready && (best == nullptr || runs_before(split, best->frame, best->pc)))
            best = &split;
    }
    return best;
}

Group choose(const Block* block, uint32_t first, uint32_t candidates) {
    const Split* next[kGangWarps];
    Group group;
    for (uint32_t left = candidates; left != 0; left &= left - 1) {
        const uint32_t i = uint32_t(std::countr_zero(left));
        Warp& warp = block->warps[first + i];
        next[i] = next_split(warp);
        if (next[i] == nullptr) continue;
        const Split* best = group.earliest;
        const bool same =
            best != nullptr && next[i]->pc == best->pc && next[i]->frame->depth == best->frame->depth;
        if (best == nullptr || runs_before(*next[i], best->frame, best->pc) || (same && !is_whole(warp)))
            group.earliest = next[i], group.warp = &warp;
    }
    if (group.earliest == nullptr) return group;
    const bool alone = !is_whole(*group.warp);
    for (uint32_t left = candidates; left != 0; left &= left - 1) {
        const uint32_t i = uint32_t(std::countr_zero(left));
        const Warp& warp = block->warps[first + i];
        if (next[i] == nullptr || &warp == group.warp ||
            next[i]->frame->depth != group.earliest->frame->depth)
            continue;
        if (!alone && next[i]->pc == group.earliest->pc && is_whole(warp))
            group.members |= 1u << i;
        else
            group.others = std::min(group.others, next[i]->pc);
    }
    if (!alone) group.members |= 1u << (group.warp->index - first);
    return group;
}

void run_gang(Gang& gang, const Op* pc) {
    do {
        pc = pc->gang(pc, &gang);
    } while (pc != nullptr);
}

Gang make_gang(Block* block, const Op* wait_pc) {
    Gang gang;
    gang.count = 0;
    gang.wait_pc = wait_pc;
    gang.full = true;
    gang.block = block;
    return gang;
}

void add_warp(Gang& gang, Warp* warp) {
    warp->stop = Stop::none;
    gang.full &= warp->mask == kAllLanes;
    gang.slots[gang.count] = warp->slots;
    gang.warps[gang.count++] = warp;
}

void run_group(Block* block, uint32_t first, const Group& group) {
    Gang gang = make_gang(block, group.others);
    const Op* pc = nullptr;
    for (uint32_t left = group.members; left != 0; left &= left - 1) {
        Warp* warp = &block->warps[first + uint32_t(std::countr_zero(left))];
        pc = pick(warp);
        add_warp(gang, warp);
    }
    run_gang(gang, pc);
}

// Of the candidates, those that only stopped because others waited for them.
uint32_t still_running(const Block* block, uint32_t first, uint32_t candidates, uint32_t ran) {
    for (; ran != 0; ran &= ran - 1) {
        const uint32_t i = uint32_t(std::countr_zero(ran));
        if (block->warps[first + i].stop != Stop::met) candidates &= ~(1u << i);
    }
    return candidates;
}

}  // namespace

bool run_warps(Block* block, uint32_t first, uint32_t candidates) {
    for (uint32_t runs = 0; std::popcount(candidates) > 1 && runs < kRunsATurn; ++runs) {
        const Group group = choose(block, first, candidates);
        if (group.earliest == nullptr) return true;
        uint32_t ran = group.members;
        if (std::popcount(group.members) > 1) {
            run_group(block, first, group);
        } else {
            ran = 1u << (group.warp->index - first);
            group.warp->meet = group.others;
            run_turn(group.warp);
            group.warp->meet = nullptr;
        }
        if (launch_stopping(block)) return false;
        candidates = still_running(block, first, candidates, ran);
    }
    for (; candidates != 0; candidates &= candidates - 1) {
        run_turn(&block->warps[first + uint32_t(std::countr_zero(candidates))]);
        if (launch_stopping(block)) return false;
    }
    return true;
}

bool start_warps(Block* block, uint32_t first, uint32_t count, const Op* start) {
    Gang gang = make_gang(block, kNoWait);
    for (uint32_t i = 0; i < count; ++i) {
        Warp* warp = &block->warps[first + i];
        warp->mask = warp->live;
        warp->budget = kBudgetAlone;
        refresh(warp);
        add_warp(gang, warp);
    }
    run_gang(gang, start);
    if (launch_stopping(block)) return false;
    const uint32_t all = (1u << count) - 1;
    const uint32_t left = still_running(block, first, all, all);
    return left == 0 || run_warps(block, first, left);
}

}  // namespace softgpu
