// The checks before each access to memory.
#include "exec/check/accesses.h"

#include <bit>
#include <cstring>
#include <optional>

#include "exec/check/unwritten.h"

namespace softgpu::check {
namespace {

const char* kRemedyShared =
    "write it in every thread that is meant to (and put __syncthreads() / cuda.syncthreads() before it is "
    "read)";

uint8_t flags_of(const Touch& touch) {
    return uint8_t((touch.access & strong ? Stamp::is_strong : 0) |
                   (touch.access & is_volatile ? Stamp::by_volatile : 0) |
                   (std::has_single_bit(touch.warp->mask) ? 0 : Stamp::by_many) |
                   (touch.access & later ? Stamp::is_later : 0) |
                   (touch.access & compares ? Stamp::by_compare : 0));
}

// Whether two accesses race, of which one writes.
std::optional<Why> conflict(const Order& order, const Stamp& other, const Stamp& now, Kind kind,
                            bool now_writes) {
    if (other.op == nullptr) return {};
    // A plain read before a compare and swap is a guess, which the swap confirms.
    if (kind == Kind::read_write && ((other.flags | now.flags) & Stamp::by_compare)) return {};
    const Ordered ordered = order.before(other, now.thread);
    if (ordered == Ordered::yes) return {};
    if (other.flags & now.flags & Stamp::is_strong) {
        const bool one_warp = other.thread / kLanes == now.thread / kLanes;
        const uint8_t writer = now_writes ? now.flags : other.flags;
        if ((other.flags & now.flags & Stamp::by_volatile) && one_warp && other.op != now.op &&
            (writer & Stamp::by_many))
            return Why::warp_synchronous;
        return {};
    }
    if (ordered == Ordered::passed) return Why::no_fence;
    return (other.flags & Stamp::is_later) && !order.copy_is_done(other) ? Why::not_waited : Why::unordered;
}

// In one instruction, memory has not changed yet.
bool same_value(const Touch& touch, const std::byte* at, bool one_instruction, uint32_t other_lane) {
    if (!(touch.access & has_value)) return false;
    const uint32_t size = touch.bytes == 8 ? 8 : 4;
    const std::byte* values = touch.warp->slots + touch.op->e;
    const std::byte* theirs = one_instruction ? values + other_lane * size : at;
    return std::memcmp(theirs, values + touch.lane * size, touch.bytes) == 0;
}

void check_race(LaunchChecks& checks, BlockState& state, const Touch& touch, uint64_t offset, uint32_t unit) {
    const uint32_t thread = touch.warp->index * kLanes + touch.lane;
    const Stamp now = state.order.stamp(touch.op, thread, flags_of(touch));
    const bool writing = touch.access & writes;
    auto look = [&](const Stamp& other, Kind kind) {
        const auto why = conflict(state.order, other, now, kind, writing);
        if (!why) return;
        if (kind == Kind::write_write &&
            same_value(touch, touch.warp->block->shared + offset,
                       other.op == touch.op && other.thread / kLanes == touch.warp->index,
                       other.thread % kLanes))
            return;
        checks.race({kind, *why, touch.warp, touch.op, touch.lane, writing, other.op, other.thread},
                    [&] { return checks.shared_place(offset); });
    };
    for (uint64_t cell = offset / unit; cell < (offset + touch.bytes + unit - 1) / unit; ++cell) {
        BlockState::Cell& here = state.cells[cell];
        if (writing) {
            look(here.writer, Kind::write_write);
            for (const Stamp& reader : here.readers) look(reader, Kind::read_write);
            here.writer = now;
            continue;
        }
        look(here.writer, Kind::read_write);
        // Two readers are kept, so that the writer is not the only one; of two in one warp, one.
        Stamp *first = &here.readers[0], *second = &here.readers[1];
        auto passed = [&](const Stamp& reader) {
            return reader.op == nullptr || state.order.before(reader, thread) == Ordered::yes;
        };
        if (passed(*first))
            *first = now;
        else if (passed(*second) || second->thread / kLanes == first->thread / kLanes)
            *second = now;
    }
}

bool none_of(const std::vector<bool>& written, uint64_t at, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; ++i) {
        if (written[at + i]) return false;
    }
    return true;
}

// Element by element: a vector may have a part that nobody needs, and a structure has bytes between members.
template <class None>
bool reads_unwritten(const Touch& touch, None none) {
    if (!(touch.access & reads)) return false;
    for (uint32_t part = 0; part < touch.bytes; part += touch.element) {
        if (none(part, touch.element)) return true;
    }
    return false;
}

void touch_shared(LaunchChecks& checks, BlockState& state, const Touch& touch, uint64_t offset) {
    const Block* block = touch.warp->block;
    if (offset > block->shared_bytes || touch.bytes > block->shared_bytes - offset) return;  // a fault
    if (checks.asks(unwritten) && !state.shared_written.empty()) {
        auto& written = state.shared_written;
        if (reads_unwritten(touch, [&](uint32_t at, uint32_t n) { return none_of(written, offset + at, n); }))
            checks.unwritten(touch.warp, touch.op, touch.lane, checks.shared_place(offset), kRemedyShared);
        if (touch.access & writes) std::fill_n(written.begin() + long(offset), touch.bytes, true);
    }
    const uint32_t unit = block->launch->image->check_unit;
    if (checks.asks(races) && !state.cells.empty() && offset % unit == 0)
        check_race(checks, state, touch, offset, unit);
}

void touch_local(LaunchChecks& checks, BlockState& state, const Touch& touch, uint64_t offset) {
    const Block* block = touch.warp->block;
    if (!checks.asks(unwritten) || state.local_written.empty()) return;
    if (offset > block->local_stride || touch.bytes > block->local_stride - offset) return;
    const uint64_t thread = uint64_t(touch.warp->index) * kLanes + touch.lane;
    const uint64_t base = thread * block->local_stride + offset;
    auto& written = state.local_written;
    if (reads_unwritten(touch, [&](uint32_t at, uint32_t n) { return none_of(written, base + at, n); })) {
        checks.unwritten(
            touch.warp, touch.op, touch.lane,
            "the thread's own array at offset " + std::to_string(offset) + " of its local memory",
            "give each element a value before it is read");
    }
    if (touch.access & writes) std::fill_n(written.begin() + long(base), touch.bytes, true);
}

DeviceAccesses::Page* page_of(LaunchChecks& checks, const LaunchState* launch, uint64_t number) {
    thread_local struct {
        uint64_t grid = UINT64_MAX, number = 0;
        DeviceAccesses::Page* page = nullptr;
    } last;
    if (last.grid != launch->grid_id || last.number != number)
        last = {launch->grid_id, number, checks.device().page(number)};
    return last.page;
}

// As check_race, with one reader to a unit, in all blocks.
void check_device_race(LaunchChecks& checks, BlockState& state, const Touch& touch, uint64_t address) {
    const LaunchState* launch = touch.warp->block->launch;
    const uint32_t thread = touch.warp->index * kLanes + touch.lane, unit = launch->image->check_device_unit;
    if (address % unit != 0) return;
    const Op* const ops = launch->image->ops.data();
    const Stamp stamp =
        state.order.stamp(touch.op, thread, flags_of(touch) & (Stamp::is_strong | Stamp::by_compare));
    const bool writing = touch.access & writes;
    const uint32_t own = state.blocks.number();
    const DeviceAccesses::Access now{uint32_t(touch.op - ops) + 1,
                                     own,
                                     state.blocks.time(),
                                     stamp.warp_time,
                                     stamp.epoch,
                                     stamp.thread,
                                     stamp.flags};
    auto conflicts = [&](const DeviceAccesses::Access& other, Kind kind) -> std::optional<Why> {
        if (other.op == 0) return {};
        if (kind == Kind::read_write && ((other.flags | now.flags) & Stamp::by_compare)) return {};
        if (other.block == own)
            return conflict(state.order,
                            {ops + other.op - 1, other.warp_time, other.epoch, other.thread, other.flags},
                            stamp, kind, writing);
        if ((other.flags & now.flags & Stamp::is_strong) || checks.left_by_blocks().lost() ||
            state.blocks.knows(other.block, other.block_time))
            return {};
        if (kind == Kind::read_write && writing && state.blocks.has_heard(other.block, other.block_time))
            return {};
        return Why::unordered;
    };
    auto look = [&](const DeviceAccesses::Access& other, Kind kind) {
        const auto why = conflicts(other, kind);
        if (!why) return;
        const Op* op = ops + other.op - 1;
        const std::byte* at = launch->memory->host_pointer(address, touch.bytes);
        if (at == nullptr) return;  // a fault
        if (kind == Kind::write_write &&
            same_value(touch, at,
                       op == touch.op && other.block == own && other.thread / kLanes == touch.warp->index,
                       other.thread % kLanes))
            return;
        checks.race({kind, *why, touch.warp, touch.op, touch.lane, writing, op, other.thread,
                     other.block == own ? UINT64_MAX : other.block},
                    [&] { return checks.device_place(address); });
    };
    for (uint64_t at = address / unit; at < (address + touch.bytes + unit - 1) / unit; ++at) {
        DeviceAccesses::Page* page = page_of(checks, launch, at / DeviceAccesses::kPageCells);
        if (page == nullptr) return;
        const std::lock_guard lock(page->mutex);
        DeviceAccesses::Cell& here = page->cells[at % DeviceAccesses::kPageCells];
        look(here.writer, writing ? Kind::write_write : Kind::read_write);
        if (writing) {
            look(here.reader, Kind::read_write);
            here.writer = now;
        } else if (here.reader.block == own || !conflicts(here.reader, Kind::read_write)) {
            here.reader = now;
        }
    }
}

void touch_device(LaunchChecks& checks, BlockState& state, const Touch& touch, uint64_t address) {
    if (checks.asks(races) && state.follows_device) check_device_race(checks, state, touch, address);
    if (!checks.asks(unwritten)) return;
    Unwritten& memory = Unwritten::get();
    if (reads_unwritten(touch,
                        [&](uint32_t at, uint32_t n) { return memory.none_written(address + at, n); })) {
        checks.unwritten(
            touch.warp, touch.op, touch.lane, checks.device_place(address),
            "copy data to it or set it (cudaMemset; numba: cuda.to_device) before the kernel reads "
            "it");
        memory.written(address, touch.bytes);  // told once
    }
    if (touch.access & writes) memory.written(address, touch.bytes);
}

void look_at(LaunchChecks& checks, BlockState& state, const Touch& touch, uint64_t address) {
    const uint64_t window = address & ~(Windows::size - 1), offset = address & (Windows::size - 1);
    if (window == Windows::shared)
        touch_shared(checks, state, touch, offset);
    else if (window == Windows::local)
        touch_local(checks, state, touch, offset);
    else if (window == 0)
        touch_device(checks, state, touch, address);
}

}  // namespace

void touch_memory(LaunchChecks& checks, BlockState& state, const Touch& touch, uint64_t address) {
    if (touch.element == 0 || address % touch.bytes != 0) return;  // a fault
    const uint32_t thread = touch.warp->index * kLanes + touch.lane;
    const bool device = (address & ~(Windows::size - 1)) == 0;
    const bool between_blocks = device && checks.asks(races) && state.follows_device;
    const bool orders = (touch.access & strong) && checks.asks(races);
    if (between_blocks) state.blocks.settle(thread);
    if (orders && (touch.access & (reads | takes))) {
        state.order.read(address, thread, touch.access);
        if (between_blocks) checks.left_by_blocks().read(state.blocks, address, thread, touch.access);
    }
    look_at(checks, state, touch, address);
    if (orders && (touch.access & writes)) {
        state.order.wrote(address, thread, touch.access);
        if (between_blocks) checks.left_by_blocks().wrote(state.blocks, address, thread, touch.access);
    }
}

}  // namespace softgpu::check
