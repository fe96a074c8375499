// What went wrong, for a person: every message names kernel, block, thread and PTX line.
#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstdio>

#include "exec/launch.h"
#include "exec/readable_name.h"
#include "exec/sums.h"
#include "exec/variables.h"

namespace softgpu {
namespace {

std::string hex(uint64_t value) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%" PRIx64, value);
    return text;
}

std::string triple(uint32_t x, uint32_t y, uint32_t z) {
    return "(" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
}

constexpr uint64_t kNull = 4096;       // a member or an element of what a null pointer points to
constexpr uint64_t kFar = 1ull << 30;  // from the next allocation: it has nothing to do with it

// "the nearest allocation is 0x... of 64 bytes", or which variable it is.
std::string describe_allocation(const LaunchState* launch, const Allocation& near) {
    const auto size = " of " + std::to_string(near.bytes) + " bytes";
    if (!is_variable(near.base)) return "the nearest allocation is " + hex(near.base) + size;
    const LoadedModule& module = *launch->launch->module;
    const auto globals = module.program().globals();
    for (uint32_t i = 0; i < globals.size(); ++i) {
        if (module.global_address(i) == near.base)
            return "the nearest is the variable " + globals[i].name + size;
    }
    return "the nearest is another module's variable" + size;
}

std::string describe_device_address(const LaunchState* launch, uint64_t address) {
    if (address < kNull) return "a null pointer, or " + std::to_string(address) + " bytes behind one";
    const auto near = launch->memory->nearest(address);
    if (!near) return "nothing is allocated";
    const uint64_t end = near->base + near->bytes;
    const uint64_t away = address < near->base ? near->base - address : address - std::min(address, end);
    if (away > kFar)
        return "no allocation is within 1 GiB of it: is it a pointer of the host, or one that was never set?";
    const std::string what = describe_allocation(launch, *near);
    if (address == end) return what + ", which ends there";
    if (address > end) return what + ", which ends " + std::to_string(away) + " bytes before it";
    if (address < near->base) return what + ", which begins " + std::to_string(away) + " bytes behind it";
    return what + ", which it runs out of";
}

std::string describe_address(const Warp* warp, uint64_t address) {
    const LaunchState* launch = warp->block->launch;
    const uint64_t window = address & ~(Windows::size - 1), offset = address & (Windows::size - 1);
    if (window == Windows::shared) {
        return "offset " + std::to_string(int64_t(offset << 8) >> 8) + " of the block's " +
               std::to_string(warp->block->shared_bytes) + " bytes of shared memory";
    }
    if (window == Windows::local) {
        return "offset " + std::to_string(int64_t(offset << 8) >> 8) + " of the thread's " +
               std::to_string(warp->block->local_stride) + " bytes of local memory";
    }
    if (window == Windows::param) {
        return "offset " + std::to_string(offset) + " of " + std::to_string(warp->block->param_bytes) +
               " bytes of parameters";
    }
    return hex(address) + "; " + describe_device_address(launch, address);
}

}  // namespace

LaunchResult asked_to_stop(const Launch& launch, const KernelInfo& info) {
    if (launch.cancel != nullptr && launch.cancel->load(std::memory_order_relaxed))
        return {Status::cancelled, "kernel " + readable_name(info.name) + " was cancelled"};
    const auto* interrupts = launch.interrupts;
    if (interrupts != nullptr && interrupts->load(std::memory_order_relaxed) != launch.interrupts_before)
        return {Status::interrupted, "kernel " + readable_name(info.name) + " was interrupted"};
    return {};
}

bool launch_stopping(const Block* block) {
    LaunchState* launch = block->launch;
    LaunchResult asked = asked_to_stop(*launch->launch, *launch->info);
    if (asked.status != Status::ok) fail_launch(launch, asked.status, std::move(asked.detail));
    return launch->stop.load(std::memory_order_relaxed);
}

void fail_launch(LaunchState* launch, Status status, std::string detail) {
    const std::lock_guard lock(launch->mutex);
    if (launch->result.status == Status::ok) {
        launch->result.status = status;
        launch->result.detail = std::move(detail);
    }
    launch->stop.store(true, std::memory_order_relaxed);
}

std::string describe_place(const Warp* warp, unsigned lane) {
    const Block* block = warp->block;
    const Dim3 size = block->launch->launch->block;
    const uint32_t thread = warp->index * kLanes + lane;
    return "kernel " + readable_name(block->launch->info->name) + ", block " +
           triple(block->x, block->y, block->z) + ", thread " +
           triple(thread % size.x, thread / size.x % size.y, thread / size.x / size.y);
}

std::string describe_line(const LaunchState* launch, const Op* op) {
    const Function* function = launch->image->function_of(op);
    std::string where = "PTX line " + std::to_string(op->line);
    if (function != nullptr) {
        if (function->name != launch->info->name) where += " in " + readable_name(function->name);
        if (!function->input.empty()) where += " of " + function->input;
    }
    const std::string source = launch->image->source_of(op);
    if (!source.empty()) where += ", from " + source;
    return where;
}

const Op* fault(const Op* op, Warp* warp, Status status, unsigned lane, const std::string& what) {
    LaunchState* launch = warp->block->launch;
    fail_launch(launch, status, describe_place(warp, lane) + ": " + what + "; " + describe_line(launch, op));
    warp->stop = Stop::fault;
    return nullptr;
}

const Op* fault_lane(const Op* op, Warp* warp, Status status, unsigned lane, uint64_t address, unsigned bytes,
                     const char* action) {
    std::string what;
    if (status == Status::illegal_address) {
        what = std::string(action) + " of " + std::to_string(bytes) + " bytes out of bounds at " +
               describe_address(warp, address);
    } else if (status == Status::misaligned_address) {
        what = std::string(action) + " of " + std::to_string(bytes) +
               " bytes at an address that is no multiple of that, " + hex(address);
    } else {
        what = std::string(action) + " " + std::to_string(address) + " is not valid";
    }
    return fault(op, warp, status, lane, what);
}

std::byte* resolve(Warp* warp, unsigned lane, uint64_t address, uint64_t bytes) {
    const Block* block = warp->block;
    const uint64_t window = address & ~(Windows::size - 1), offset = address & (Windows::size - 1);
    auto within = [&](std::byte* base, uint64_t size) {
        return offset <= size && bytes <= size - offset ? base + offset : nullptr;
    };
    if (window == Windows::shared) return within(block->shared, block->shared_bytes);
    if (window == Windows::local) {
        const uint64_t thread = uint64_t(warp->index) * kLanes + lane;
        return within(block->local + thread * block->local_stride, block->local_stride);
    }
    if (window == Windows::param) return within(const_cast<std::byte*>(block->params), block->param_bytes);
    if (window != 0) return nullptr;
    std::byte* const found = block->launch->memory->host_pointer(address, bytes);
    if (found != nullptr) settle_sums_of(warp->block, address, address + bytes);
    return found;
}

bool resolve_lanes(const Op* op, Warp* warp, const uint64_t* addresses, unsigned bytes, const char* action) {
    CachedRange last{1, 0, 0};
    for (uint32_t left = warp->mask; left != 0; left &= left - 1) {
        const unsigned lane = unsigned(std::countr_zero(left));
        const uint64_t address = addresses[lane];
        if ((address & (bytes - 1)) != 0) {
            fault_lane(op, warp, Status::misaligned_address, lane, address, bytes, action);
            return false;
        }
        if (address >= last.base && address < last.end && bytes <= last.end - address) {
            warp->pointers[lane] = reinterpret_cast<std::byte*>(address);
            continue;
        }
        std::byte* pointer = resolve(warp, lane, address, bytes);
        const bool read_only = (address & ~(Windows::size - 1)) == Windows::param && action[0] != 'r';
        if (pointer == nullptr || read_only) {
            fault_lane(op, warp, Status::illegal_address, lane, address, bytes, action);
            return false;
        }
        warp->pointers[lane] = pointer;
        if (address < Windows::shared) {
            const auto allocation = warp->block->launch->memory->find(address);
            if (allocation) last = {allocation->base, allocation->base + allocation->bytes, 0};
        }
    }
    return true;
}

bool cache_range(const Op* op, Warp* warp, uint64_t first, uint64_t end) {
    if (end > Windows::shared) return false;
    const auto allocation = warp->block->launch->memory->find(first);
    if (!allocation || end > allocation->base + allocation->bytes) return false;
    settle_sums_of(warp->block, allocation->base, allocation->base + allocation->bytes);
    warp->block->cache[op->site % kCacheEntries] = {allocation->base, allocation->base + allocation->bytes,
                                                    first};
    return true;
}

}  // namespace softgpu
