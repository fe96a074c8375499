// Branches, calls, barriers and other instructions that work on a warp as a whole.
#include <bit>
#include <chrono>
#include <cstring>

#include "exec/gang.h"
#include "exec/handlers.h"
#include "exec/launch.h"
#include "exec/schedule.h"
#include "exec/sums.h"

namespace softgpu {
namespace {

uint32_t predicate(const Warp* warp, uint32_t slot) {
    return *reinterpret_cast<const uint32_t*>(warp->slots + slot);
}

const Op* go(Warp* warp, const Op* from, const Op* to) {
    if (to <= from && --warp->budget < 0) return yield(warp, to);
    return to >= warp->wait_pc ? arrive(warp, to) : to;
}

const Op* bra(const Op* op, Warp* warp) {
    return go(warp, op, op + op->jump);
}

const Op* bra_if(const Op* op, Warp* warp) {
    const uint32_t taken = (predicate(warp, op->a) ^ uint32_t(op->imm)) & warp->mask;
    if (taken == warp->mask) return go(warp, op, op + op->jump);
    const Op* next = op + 1;
    if (taken == 0) return next >= warp->wait_pc ? arrive(warp, next) : next;
    const Op* target = op + op->jump;
    if (target <= op) --warp->budget;
    const bool jump_first = target < next;
    const uint32_t stay = warp->mask & ~taken;
    park(warp, jump_first ? next : target, jump_first ? stay : taken, Wait::ready);
    warp->mask = jump_first ? taken : stay;
    const Op* first = jump_first ? target : next;
    if (warp->budget < 0) return yield(warp, first);
    return arrive(warp, first);
}

const Op* join(const Op* op, Warp* warp) {
    const Op* next = op + 1;
    return next >= warp->wait_pc ? arrive(warp, next) : next;
}

const Op* brx(const Op* op, Warp* warp) {
    const auto& table = *reinterpret_cast<const std::vector<const Op*>*>(op->imm);
    const auto* index = reinterpret_cast<const uint32_t*>(warp->slots + op->a);
    const Op* first = nullptr;
    const uint32_t all = warp->mask;
    uint32_t first_mask = 0;
    for (uint32_t left = all; left != 0;) {
        const int lane = std::countr_zero(left);
        if (index[lane] >= table.size()) {
            return fault_lane(op, warp, Status::illegal_instruction, unsigned(lane), index[lane], 0,
                              "branch index");
        }
        uint32_t same = 0;
        for (uint32_t i = 0; i < kLanes; ++i) same |= (index[i] == index[lane] ? 1u : 0u) << i;
        same &= left;
        left &= ~same;
        if (first != nullptr) park(warp, first, first_mask, Wait::ready);
        first = table[index[lane]], first_mask = same;
    }
    warp->mask = first_mask;
    --warp->budget;
    if (warp->budget < 0) return yield(warp, first);
    return arrive(warp, first);
}

// The next instruction for fewer lanes. Instructions that may wait or end lanes are never guarded.
const Op* guard(const Op* op, Warp* warp) {
    const uint32_t all = warp->mask;
    const uint32_t chosen = (predicate(warp, op->a) ^ uint32_t(op->imm)) & all;
    if (chosen == 0) return op + 2;
    if (chosen == all) return op + 1;
    const uint32_t partial = warp->partial;
    warp->mask = chosen;
    warp->partial = 1;
    const Op* next = op[1].fn(op + 1, warp);
    warp->mask = all;
    warp->partial = partial;
    return next;
}

const Op* exit_handler(const Op*, Warp* warp) {
    return exit_lanes(warp);
}

const Op* trap(const Op* op, Warp* warp) {
    return fault(op, warp, Status::trap, unsigned(std::countr_zero(warp->mask)), "the kernel executed trap");
}

const Op* unreachable(const Op* op, Warp* warp) {
    return fault(op, warp, Status::illegal_instruction, unsigned(std::countr_zero(warp->mask)),
                 "ran past the end of a function");
}

// All there is of a function with what the engine does not know; it was called through a pointer.
const Op* refused(const Op* op, Warp* warp) {
    const Function* function = warp->block->launch->image->function_of(op);
    return fault(op, warp, Status::illegal_instruction, unsigned(std::countr_zero(warp->mask)),
                 "call of a function that cannot run: " + function->refusal);
}

std::byte* lane_bytes(Warp* warp, const Frame* frame, const Place& place, uint32_t lane) {
    if (!place.local) return frame->slots + place.offset + uint64_t(lane) * (place.bytes == 8 ? 8 : 4);
    const Block* block = warp->block;
    const uint64_t thread = uint64_t(warp->index) * kLanes + lane;
    return block->local + thread * block->local_stride + frame->local_base + place.offset;
}

void transfer(Warp* warp, uint32_t mask, const Frame* from, const std::vector<Place>& sources,
              const Frame* to, const std::vector<Place>& targets) {
    const size_t count = std::min(sources.size(), targets.size());
    for (size_t i = 0; i < count; ++i) {
        const Place &source = sources[i], &target = targets[i];
        const uint32_t bytes = std::min(source.bytes, target.bytes);
        if (bytes == 0) continue;
        for (uint32_t left = mask; left != 0; left &= left - 1) {
            const uint32_t lane = uint32_t(std::countr_zero(left));
            std::memcpy(lane_bytes(warp, to, target, lane), lane_bytes(warp, from, source, lane), bytes);
        }
    }
}

const Op* enter(const Op* op, Warp* warp, const CallSite& site, uint32_t callee) {
    const LaunchState* launch = warp->block->launch;
    const Function* function = &launch->image->functions[callee];
    // A kernel's parameters are not laid out as a function's, and a definition that another input has
    // replaced has neither code nor slots.
    if (function->kernel || function->first == function->end) {
        return fault(op, warp, Status::invalid_pc, unsigned(std::countr_zero(warp->mask)),
                     "call of " + function->name + ", which cannot be called");
    }
    Frame* frame = make_frame(op, warp, function);
    if (frame == nullptr) return nullptr;
    transfer(warp, warp->mask, warp->frame, site.arguments, frame, function->params);
    warp->frame = frame;
    warp->slots = frame->slots;
    refresh(warp);
    return &launch->image->ops[function->first];
}

const Op* call(const Op* op, Warp* warp) {
    const auto& site = *reinterpret_cast<const CallSite*>(op->imm);
    const unsigned lane = unsigned(std::countr_zero(warp->mask));
    if (!site.undefined.empty()) {
        return fault(op, warp, Status::illegal_instruction, lane,
                     "call of the undefined function " + site.undefined);
    }
    if (--warp->budget < 0) return yield(warp, op);
    if (site.pointer == kNoSlot) return enter(op, warp, site, site.callee);
    const auto* pointers = reinterpret_cast<const uint64_t*>(warp->slots + site.pointer);
    const uint64_t pointer = pointers[lane];
    const uint64_t index = pointer - Windows::function;
    const auto& functions = warp->block->launch->image->functions;
    if (index >= functions.size() || functions[index].kernel) {
        return fault_lane(op, warp, Status::invalid_pc, lane, pointer, 0, "function pointer");
    }
    uint32_t same = 0;
    for (uint32_t i = 0; i < kLanes; ++i) same |= (pointers[i] == pointer ? 1u : 0u) << i;
    same &= warp->mask;
    if (same != warp->mask) park(warp, op, warp->mask & ~same, Wait::ready);
    warp->mask = same;
    return enter(op, warp, site, uint32_t(index));
}

const Op* builtin(const Op* op, Warp* warp) {
    return call_builtin(op, warp, *reinterpret_cast<const CallSite*>(op->imm));
}

const Op* ret(const Op*, Warp* warp) {
    Frame* frame = warp->frame;
    Frame* caller = frame->parent;
    const auto& site = *reinterpret_cast<const CallSite*>(frame->call->imm);
    transfer(warp, warp->mask, frame, frame->function->returns, caller, site.returns);
    const Op* next = frame->call + 1;
    frame->lanes &= ~warp->mask;
    if (frame->lanes == 0) release_frame(warp, frame);
    warp->frame = caller;
    warp->slots = caller->slots;
    return arrive(warp, next);
}

template <BarrierKind kind>
const Op* barrier(const Op* op, Warp* warp) {
    return arrive_at_barrier(op, warp, kind);
}

const Op* fence(const Op* op, Warp* warp) {
    settle_sums(warp->block);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return op + 1;
}

// Marks an access that may be part of a wait for others: the turn ends sooner.
const Op* spin(const Op* op, Warp* warp) {
    // In a cooperative launch a block mostly waits for blocks that share its host thread.
    warp->budget -= warp->block->launch->launch->cooperative ? kBudgetAlone / 4 : 32;
    return op + 1;
}
const Op* spin_long(const Op* op, Warp* warp) {
    warp->budget = 0;
    return op + 1;
}

void write_all(const Op* op, Warp* warp, uint64_t value) {
    auto* lanes = reinterpret_cast<uint64_t*>(warp->slots + op->d);
    for (uint32_t left = warp->mask; left != 0; left &= left - 1) lanes[std::countr_zero(left)] = value;
}

const Op* clock(const Op* op, Warp* warp) {
    write_all(op, warp, uint64_t(std::chrono::steady_clock::now().time_since_epoch().count()));
    return op + 1;
}
const Op* global_timer(const Op* op, Warp* warp) {
    write_all(op, warp, uint64_t(std::chrono::system_clock::now().time_since_epoch().count()));
    return op + 1;
}

template <uint64_t window>
const Op* is_in_window(const Op* op, Warp* warp) {
    const auto* addresses = reinterpret_cast<const uint64_t*>(warp->slots + op->a);
    uint32_t bits = 0;
    for (uint32_t i = 0; i < kLanes; ++i)
        bits |= uint32_t((addresses[i] & ~(Windows::size - 1)) == window) << i;
    auto& to = *reinterpret_cast<uint32_t*>(warp->slots + op->d);
    to = (to & ~warp->mask) | (bits & warp->mask);
    return op + 1;
}

const HandlerEntry kEntries[] = {
    {"bra", {bra, gang_bra}},
    {"bra.if", {bra_if, gang_bra_if}},
    {"brx", brx},
    {"join", {join, gang_join}},
    {"guard", {guard, gang_guard}},
    {"exit", {exit_handler, gang_exit}},
    {"ret", ret},
    {"trap", trap},
    {"brkpt", trap},
    {"unreachable", unreachable},
    {"refused", refused},
    {"call", call},
    {"call.builtin", builtin},
    {"bar.sync", {barrier<BarrierKind::sync>, gang_barrier}},
    {"bar.arrive", barrier<BarrierKind::arrive>},
    {"bar.red.or", barrier<BarrierKind::any>},
    {"bar.red.and", barrier<BarrierKind::all>},
    {"bar.red.popc", barrier<BarrierKind::count>},
    {"fence", fence},
    {"spin", spin},
    {"spin.long", spin_long},
    {"clock", clock},
    {"globaltimer", global_timer},
    {"isspacep.global", is_in_window<0>},
    {"isspacep.shared", is_in_window<Windows::shared>},
    {"isspacep.local", is_in_window<Windows::local>},
    {"isspacep.param", is_in_window<Windows::param>},
    {"isspacep.const", is_in_window<UINT64_MAX>},
};

}  // namespace

const HandlerTable kControlHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu
