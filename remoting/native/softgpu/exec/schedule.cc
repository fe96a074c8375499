#include "exec/schedule.h"

#include <algorithm>
#include <bit>

#include "exec/gang.h"
#include "exec/image.h"
#include "exec/launch.h"
#include "exec/sums.h"

namespace softgpu {

bool runs_before(const Split& split, const Frame* frame, const Op* pc) {
    return split.frame->depth != frame->depth ? split.frame->depth > frame->depth : split.pc < pc;
}

namespace {

void remove_split(Warp* warp, uint32_t at) {
    warp->splits[at] = warp->splits[--warp->split_count];
}

void load(Warp* warp, const Split& split) {
    warp->frame = split.frame;
    warp->slots = split.frame->slots;
    warp->mask = split.mask;
}

// Takes the ready splits at the running one's place into it.
void join(Warp* warp, const Op* pc) {
    for (uint32_t i = warp->split_count; i-- > 0;) {
        const Split& split = warp->splits[i];
        if (split.wait == Wait::ready && split.pc == pc && split.frame == warp->frame) {
            warp->mask |= split.mask;
            remove_split(warp, i);
        }
    }
}

bool waits_with(const Split& split, const Split& like, bool anywhere) {
    return anywhere ? split.pc->fn == like.pc->fn : split.pc == like.pc && split.frame == like.frame;
}

// Lanes that wait for members where `like` does: at the same place of the same call, or at any such
// instruction.
uint32_t lanes_waiting(const Warp* warp, const Split& like, bool anywhere) {
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < warp->split_count; ++i) {
        const Split& split = warp->splits[i];
        if (split.wait != Wait::members) continue;
        if (waits_with(split, like, anywhere)) lanes |= split.mask;
    }
    return lanes;
}

// Wakes the splits that wait for members, where all have come or those missing have exited.
void wake_members(Warp* warp) {
    for (uint32_t i = 0; i < warp->split_count; ++i) {
        const Split split = warp->splits[i];
        if (split.wait != Wait::members) continue;
        const bool anywhere = split.pc->imm == kMeetsAnywhere;
        const uint32_t here = lanes_waiting(warp, split, anywhere);
        if ((split.members & warp->live & ~here) != 0) continue;
        // All of one place run together; elsewhere, nothing is left to do but to go on.
        for (uint32_t j = 0; j < warp->split_count; ++j) {
            Split& other = warp->splits[j];
            if (other.wait != Wait::members || !(split.members & other.mask)) continue;
            if (waits_with(other, split, anywhere)) {
                other.wait = Wait::ready;
                if (anywhere) ++other.pc;
            }
        }
    }
}

bool barrier_complete(const Block* block, const Barrier& barrier) {
    const uint32_t wanted =
        barrier.expected != 0 ? barrier.expected : block->warp_count - block->warps_exited;
    return barrier.warps_here >= wanted;
}

void write_barrier_result(const Barrier& barrier, const Op* op, std::byte* slots, uint32_t mask,
                          BarrierKind kind) {
    if (kind == BarrierKind::count) {
        auto* lanes = reinterpret_cast<uint32_t*>(slots + op->d);
        for (uint32_t left = mask; left != 0; left &= left - 1) lanes[std::countr_zero(left)] = barrier.count;
        return;
    }
    auto& predicate = *reinterpret_cast<uint32_t*>(slots + op->d);
    const bool yes = kind == BarrierKind::any ? barrier.any != 0 : barrier.all != 0;
    predicate = (predicate & ~mask) | (yes ? mask : 0);
}

void reset(Barrier& barrier) {
    barrier = Barrier{};
    barrier.all = 1;
}

// Everybody has come: the waiting splits of all warps may go on.
void release(Block* block, uint32_t id) {
    Barrier& barrier = block->barriers[id];
    for (uint32_t w = 0; w < block->warp_count; ++w) {
        Warp& warp = block->warps[w];
        for (uint32_t i = 0; i < warp.split_count; ++i) {
            Split& split = warp.splits[i];
            if (split.wait != Wait::barrier || split.barrier != id) continue;
            const auto kind = static_cast<BarrierKind>(split.members);
            if (kind >= BarrierKind::any)
                write_barrier_result(barrier, split.pc, split.frame->slots, split.mask, kind);
            split.wait = Wait::ready;
            ++split.pc;
        }
    }
    block->barriers_used &= ~(1u << id);
}

}  // namespace

void run_turn(Warp* warp) {
    while (const Op* pc = pick(warp)) {
        warp->stop = Stop::none;
        do {
            pc = pc->fn(pc, warp);
        } while (pc != nullptr);
        if (warp->stop == Stop::yielded || warp->stop == Stop::met || warp->stop == Stop::fault) return;
    }
    warp->stop = Stop::blocked;
}

void park(Warp* warp, const Op* pc, uint32_t mask, Wait wait, uint32_t members, uint8_t barrier) {
    warp->splits[warp->split_count++] = Split{pc, warp->frame, mask, members, warp->clock++, wait, barrier};
}

void run_only(const Op* pc, Warp* warp, uint32_t mask) {
    if (mask == warp->mask) return;
    park(warp, pc, warp->mask & ~mask, Wait::ready);
    warp->mask = mask;
    refresh(warp);
}

const Op* pick(Warp* warp) {
    Split* best = nullptr;
    uint32_t ready = 0;
    for (uint32_t i = 0; i < warp->split_count; ++i) {
        Split& split = warp->splits[i];
        if (split.wait != Wait::ready) continue;
        ++ready;
        const bool better = best == nullptr || (warp->rotate ? int32_t(split.age - best->age) < 0
                                                             : runs_before(split, best->frame, best->pc));
        if (better) best = &split;
    }
    if (best == nullptr) return nullptr;
    const Op* pc = best->pc;
    load(warp, *best);
    remove_split(warp, uint32_t(best - warp->splits));
    join(warp, pc);
    warp->budget = ready > 1 ? kBudgetShared : kBudgetAlone;
    refresh(warp);
    if (warp->rotate) warp->wait_pc = kNoWait;  // its turn is its own: it does not stop for earlier ones
    warp->rotate = false;
    return pc;
}

void refresh(Warp* warp) {
    warp->partial = warp->mask != warp->live;
    warp->wait_pc = warp->split_count == 0 && warp->meet != nullptr ? warp->meet : kNoWait;
    for (uint32_t i = 0; i < warp->split_count; ++i) {
        const Split& split = warp->splits[i];
        if (split.wait != Wait::ready || split.frame->depth < warp->frame->depth) continue;
        if (split.frame->depth > warp->frame->depth)
            warp->wait_pc = nullptr;
        else
            warp->wait_pc = std::min(warp->wait_pc, split.pc);
    }
}

const Op* arrive(Warp* warp, const Op* pc) {
    const bool was_split = warp->split_count != 0;
    join(warp, pc);
    Split* best = nullptr;
    for (uint32_t i = 0; i < warp->split_count; ++i) {
        Split& split = warp->splits[i];
        if (split.wait != Wait::ready) continue;
        if (best == nullptr ? runs_before(split, warp->frame, pc) : runs_before(split, best->frame, best->pc))
            best = &split;
    }
    if (best != nullptr) {
        const Split next = *best;
        *best = Split{pc, warp->frame, warp->mask, 0, warp->clock++, Wait::ready, 0};
        load(warp, next);
        pc = next.pc;
        join(warp, pc);
    }
    refresh(warp);
    if (warp->meet == nullptr || warp->split_count != 0 || (!was_split && pc < warp->meet)) return pc;
    park(warp, pc, warp->mask, Wait::ready);
    warp->stop = Stop::met;
    return nullptr;
}

const Op* yield(Warp* warp, const Op* pc) {
    park(warp, pc, warp->mask, Wait::ready);
    warp->rotate = true;
    warp->stop = Stop::yielded;
    return nullptr;
}

const Op* wait_for_members(const Op* op, Warp* warp, uint32_t members) {
    park(warp, op, warp->mask, Wait::members, members);
    wake_members(warp);
    warp->stop = Stop::blocked;
    return nullptr;
}

const Op* exit_lanes(Warp* warp) {
    Block* block = warp->block;
    const uint32_t before = warp->live;
    warp->live &= ~warp->mask;
    for (Frame* frame = warp->frame; frame->parent != nullptr;) {
        Frame* parent = frame->parent;
        frame->lanes &= ~warp->mask;
        if (frame->lanes == 0) release_frame(warp, frame);
        frame = parent;
    }
    if (warp->live == 0)
        ++block->warps_exited;
    else
        wake_members(warp);
    for (uint32_t used = block->barriers_used; used != 0; used &= used - 1) {
        const uint32_t id = uint32_t(std::countr_zero(used));
        Barrier& barrier = block->barriers[id];
        const uint32_t arrived = barrier.arrived[warp->index];
        if (warp->live != 0 && (arrived & warp->live) == warp->live && (arrived & before) != before)
            ++barrier.warps_here;
        if (barrier_complete(block, barrier)) release(block, id);
    }
    warp->stop = Stop::exited;
    return nullptr;
}

const Op* arrive_at_barrier(const Op* op, Warp* warp, BarrierKind kind) {
    Block* block = warp->block;
    const int lane = std::countr_zero(warp->mask);
    auto operand = [&](uint32_t slot) { return reinterpret_cast<const uint32_t*>(warp->slots + slot)[lane]; };
    const uint32_t id = operand(op->a);
    if (id >= kBarriers)
        return fault_lane(op, warp, Status::illegal_instruction, unsigned(lane), id, 0, "barrier number");
    Barrier& barrier = block->barriers[id];
    if (!(block->barriers_used >> id & 1)) reset(barrier), block->barriers_used |= 1u << id;
    if (op->b != kNoSlot) barrier.expected = std::max(1u, (operand(op->b) + kLanes - 1) / kLanes);
    if (kind >= BarrierKind::any) {
        const uint32_t votes = *reinterpret_cast<const uint32_t*>(warp->slots + op->c) & warp->mask;
        barrier.any |= votes != 0;
        barrier.all &= votes == warp->mask;
        barrier.count += uint32_t(std::popcount(votes));
    }
    uint32_t& arrived = barrier.arrived[warp->index];
    const bool before = (arrived & warp->live) == warp->live;
    arrived |= warp->mask;
    if (!before && (arrived & warp->live) == warp->live) ++barrier.warps_here;
    const bool complete = barrier_complete(block, barrier);
    if (complete) {
        if (kind >= BarrierKind::any) write_barrier_result(barrier, op, warp->slots, warp->mask, kind);
        release(block, id);
    }
    if (kind == BarrierKind::arrive) return op + 1;
    if (complete && block->warp_count == 1) return arrive(warp, op + 1);
    // The last to come waits for its next turn too, so that all can go on as a gang.
    if (complete)
        park(warp, op + 1, warp->mask, Wait::ready);
    else
        park(warp, op, warp->mask, Wait::barrier, uint32_t(kind), uint8_t(id));
    warp->stop = complete ? Stop::yielded : Stop::blocked;
    return nullptr;
}

namespace {

bool can_run(const Warp& warp) {
    for (uint32_t i = 0; i < warp.split_count; ++i) {
        if (warp.splits[i].wait == Wait::ready) return true;
    }
    return false;
}

// A block's first turn: nothing has to be found out, since all its warps are where it starts.
bool give_first_turn(Block* block, const Op* start) {
    for (uint32_t first = 0; first < block->warp_count; first += kGangWarps) {
        if (!start_warps(block, first, std::min(block->warp_count - first, kGangWarps), start)) return false;
    }
    return true;
}

Progress give_turns(Block* block) {
    bool ran = false;
    for (uint32_t first = 0; first < block->warp_count; first += kGangWarps) {
        const uint32_t count = std::min(block->warp_count - first, kGangWarps);
        uint32_t candidates = 0;
        for (uint32_t i = 0; i < count; ++i) {
            const Warp& warp = block->warps[first + i];
            if (warp.live != 0 && can_run(warp)) candidates |= 1u << i;
        }
        if (candidates == 0) continue;
        ran = true;
        if (!run_warps(block, first, candidates)) return Progress::stopped;
    }
    return ran ? Progress::yielded : Progress::stuck;
}

}  // namespace

Progress run_block(Block* block, const Op* start) {
    Progress progress = Progress::yielded;
    if (start == nullptr)
        progress = give_turns(block);
    else if (!give_first_turn(block, start))
        progress = Progress::stopped;
    settle_sums(block);
    const bool ended = progress != Progress::stopped && block->warps_exited == block->warp_count;
    return ended ? Progress::finished : progress;
}

}  // namespace softgpu
