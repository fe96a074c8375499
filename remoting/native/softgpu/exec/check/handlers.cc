// The instructions that a checked program has besides its own: one before each access, and those around
// barriers.
#include "exec/handlers.h"

#include <algorithm>
#include <bit>

#include "exec/check/accesses.h"
#include "exec/check/shuffle.h"
#include "exec/schedule.h"

namespace softgpu::check {
namespace {

enum class Where { global, shared32, shared64, local, generic };

template <class F>
void each_lane(const Warp* warp, F f) {
    for (uint32_t left = warp->mask; left != 0; left &= left - 1) f(uint32_t(std::countr_zero(left)));
}

template <Where where>
const Op* access(const Op* op, Warp* warp) {
    LaunchChecks& checks = *warp->block->launch->checks;
    if (!checks.asks(where == Where::local ? unwritten : Check(races | unwritten))) return op + 1;
    BlockState& state = checks.block(warp);
    each_lane(warp, [&](uint32_t lane) {
        uint64_t address;
        if constexpr (where == Where::shared32)
            address = reinterpret_cast<const uint32_t*>(warp->slots + op->a)[lane] + op->imm;
        else
            address = reinterpret_cast<const uint64_t*>(warp->slots + op->a)[lane] + op->imm;
        if (where != Where::generic && address >= Windows::size) return;  // a fault
        if (where == Where::shared32 || where == Where::shared64) address += Windows::shared;
        if (where == Where::local) address += Windows::local;
        touch_memory(checks, state, {op, warp, lane, op->b & 0xff, (op->b & 0xff) * (op->b >> 8), op->c},
                     address);
    });
    return op + 1;
}

// ldmatrix: lane i of the first 8, 16 or 32 has the address of a row, whose words go to four lanes.
const Op* matrix_rows(const Op* op, Warp* warp) {
    LaunchChecks& checks = *warp->block->launch->checks;
    BlockState& state = checks.block(warp);
    const auto* addresses = reinterpret_cast<const uint64_t*>(warp->slots + op->a);
    const uint32_t rows = op->b, transposed = op->c;
    for (uint32_t row = 0; row < rows; ++row) {
        for (uint32_t word = 0; word < 4; ++word) {
            const uint32_t in = row % 8, lane = transposed ? word * 8 + in / 2 : in * 4 + word;
            touch_memory(checks, state, {op, warp, lane, 4, 4, reads}, addresses[row] + op->imm + word * 4);
        }
    }
    return op + 1;
}

// wmma.load and wmma.store: lines of elements, `stride` apart. Which lane has which element is not the
// program's business; here each has as many in a row as its share is.
const Op* matrix_lines(const Op* op, Warp* warp) {
    LaunchChecks& checks = *warp->block->launch->checks;
    BlockState& state = checks.block(warp);
    const Matrix matrix = Matrix::unpack(op->imm);
    const auto first = unsigned(std::countr_zero(warp->mask));
    const uint64_t base = reinterpret_cast<const uint64_t*>(warp->slots + op->a)[first];
    const uint32_t length = matrix.by_columns ? matrix.rows : matrix.columns;
    const uint32_t stride =
        op->b == kNoSlot ? length : reinterpret_cast<const uint32_t*>(warp->slots + op->b)[first];
    const uint32_t each = matrix.rows * matrix.columns / kLanes;
    for (uint32_t number = 0; number < matrix.rows * matrix.columns; ++number) {
        const uint32_t row = number / matrix.columns, column = number % matrix.columns;
        const uint64_t line = matrix.by_columns ? column : row, place = matrix.by_columns ? row : column;
        touch_memory(checks, state, {op, warp, number / each, matrix.bytes, matrix.bytes, matrix.access},
                     base + (line * stride + place) * matrix.bytes);
    }
    return op + 1;
}

const Op* fence(const Op* op, Warp* warp) {
    BlockState& state = warp->block->launch->checks->block(warp);
    each_lane(warp, [&](uint32_t lane) {
        state.order.fence(warp->index * kLanes + lane);
        if (state.follows_device) state.blocks.fence(warp->index * kLanes + lane);
    });
    return op + 1;
}

const Op* copies_end_group(const Op* op, Warp* warp) {
    BlockState& state = warp->block->launch->checks->block(warp);
    each_lane(warp, [&](uint32_t lane) { state.order.end_group(warp->index * kLanes + lane); });
    return op + 1;
}

const Op* copies_wait(const Op* op, Warp* warp) {
    BlockState& state = warp->block->launch->checks->block(warp);
    each_lane(warp, [&](uint32_t lane) {
        state.order.wait_groups(warp->index * kLanes + lane, uint32_t(std::min<uint64_t>(op->imm, 127)));
    });
    return op + 1;
}

uint32_t first_thread(const std::array<uint32_t, kMaxWarps>& lanes) {
    for (uint32_t w = 0; w < kMaxWarps; ++w) {
        if (lanes[w] != 0) return w * kLanes + uint32_t(std::countr_zero(lanes[w]));
    }
    return 0;
}

// All who were to come to barrier `id` have come: the order of what follows, and whether they came as they
// should.
void completed(LaunchChecks& checks, BlockState& state, Warp* warp, uint32_t id) {
    BlockState::Wait& wait = state.waits[id];
    uint32_t live = 0;
    for (uint32_t w = 0; w < warp->block->warp_count; ++w)
        live |= uint32_t(warp->block->warps[w].live != 0) << w;
    state.order.complete(id, live);
    if (checks.asks(divergence) && !wait.counted && !wait.told && wait.op != nullptr) {
        uint32_t come = 0, absent = UINT32_MAX;
        for (uint32_t w = 0; w < warp->block->warp_count; ++w) {
            const uint32_t born = warp->block->warps[w].born;
            come += uint32_t(std::popcount(wait.lanes[w]));
            if (absent == UINT32_MAX && (born & ~wait.lanes[w]) != 0)
                absent = w * kLanes + uint32_t(std::countr_zero(born & ~wait.lanes[w]));
        }
        if (absent != UINT32_MAX) checks.missing(warp, wait.op, come, absent);
    }
    wait = {};
}

// Barriers that an exit has completed.
void sweep(LaunchChecks& checks, BlockState& state, Warp* warp) {
    for (uint32_t id = 0; id < kBarriers; ++id) {
        if (state.waits[id].op != nullptr && !(warp->block->barriers_used >> id & 1))
            completed(checks, state, warp, id);
    }
}

template <BarrierKind kind>
const Op* barrier(const Op* op, Warp* warp) {
    LaunchChecks& checks = *warp->block->launch->checks;
    BlockState& state = checks.block(warp);
    const auto lane = uint32_t(std::countr_zero(warp->mask));
    const uint32_t id = reinterpret_cast<const uint32_t*>(warp->slots + op->a)[lane];
    if (id >= kBarriers) return arrive_at_barrier(op, warp, kind);
    BlockState::Wait& wait = state.waits[id];
    if (wait.op == nullptr) {
        wait.op = op;
    } else if (wait.op != op && checks.asks(divergence) && !wait.told && op->b == kNoSlot) {
        wait.told = true;
        checks.other_place(warp, op, wait.op, warp->index * kLanes + lane, first_thread(wait.lanes));
    }
    wait.counted = wait.counted || op->b != kNoSlot || kind == BarrierKind::arrive;
    wait.lanes[warp->index] |= warp->mask;
    state.order.arrive(id, warp->index, warp->mask, kind != BarrierKind::arrive);
    if (state.follows_device) state.blocks.barrier(warp->index * kLanes, warp->mask);
    const Op* next = arrive_at_barrier(op, warp, kind);
    if (!(warp->block->barriers_used >> id & 1) && warp->stop != Stop::fault)
        completed(checks, state, warp, id);
    return next;
}

const Op* exit(const Op*, Warp* warp) {
    LaunchChecks& checks = *warp->block->launch->checks;
    BlockState& state = checks.block(warp);
    state.order.exited(warp->index, warp->mask);
    const Op* next = exit_lanes(warp);
    sweep(checks, state, warp);
    return next;
}

const Op* warp_arrive(const Op* op, Warp* warp) {
    warp->block->launch->checks->block(warp).order.arrive_in_warp(warp->index, warp->mask);
    return op + 1;
}

// Lanes may have come for different members, as parts of a warp do that are groups of their own.
const Op* warp_leave(const Op* op, Warp* warp) {
    const auto* members = reinterpret_cast<const uint32_t*>(warp->slots + op->a);
    Order& order = warp->block->launch->checks->block(warp).order;
    for (uint32_t left = warp->mask; left != 0;) {
        const uint32_t wanted = members[std::countr_zero(left)];
        uint32_t same = 0;
        each_lane(warp, [&](uint32_t lane) { same |= uint32_t(members[lane] == wanted) << lane; });
        order.leave_in_warp(warp->index, same, wanted);
        left &= ~same;
    }
    return op + 1;
}

}  // namespace

void look_at_sources(const Op* op, Warp* warp, const uint32_t* from) {
    LaunchChecks& checks = *warp->block->launch->checks;
    if (!checks.asks(divergence)) return;
    each_lane(warp, [&](uint32_t lane) {
        if (!(warp->mask >> from[lane] & 1)) checks.absent_source(warp, op, lane, from[lane]);
    });
}

namespace {

const HandlerEntry kEntries[] = {
    {"check.global", access<Where::global>},
    {"check.shared32", access<Where::shared32>},
    {"check.shared64", access<Where::shared64>},
    {"check.local", access<Where::local>},
    {"check.generic", access<Where::generic>},
    {"check.bar.sync", barrier<BarrierKind::sync>},
    {"check.bar.arrive", barrier<BarrierKind::arrive>},
    {"check.bar.red.or", barrier<BarrierKind::any>},
    {"check.bar.red.and", barrier<BarrierKind::all>},
    {"check.bar.red.popc", barrier<BarrierKind::count>},
    {"check.exit", exit},
    {"check.matrix.rows", matrix_rows},
    {"check.matrix.lines", matrix_lines},
    {"check.fence", fence},
    {"check.copies.end", copies_end_group},
    {"check.copies.wait", copies_wait},
    {"check.warp.arrive", warp_arrive},
    {"check.warp.leave", warp_leave},
};

}  // namespace
}  // namespace softgpu::check

namespace softgpu {
const HandlerTable kCheckHandlers{check::kEntries, sizeof check::kEntries / sizeof check::kEntries[0]};
}
