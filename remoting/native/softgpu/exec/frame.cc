// Frames: their memory, and the slots that hold what does not change.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "exec/launch.h"

namespace softgpu {
namespace {

constexpr uint64_t kMaxFrameBytes = 64u << 20;  // of a warp's calls

}  // namespace

bool differs_by_lane(Special what) {
    return what <= Special::tid_z || what == Special::laneid ||
           (what >= Special::lanemask_eq && what <= Special::lanemask_gt);
}

namespace {

uint64_t lane_value(const Warp* warp, Special what, uint32_t lane) {
    const Dim3 size = warp->block->launch->launch->block;
    const uint32_t thread = warp->index * kLanes + lane;
    switch (what) {
        case Special::tid_x:
            return thread % size.x;
        case Special::tid_y:
            return thread / size.x % size.y;
        case Special::tid_z:
            return thread / size.x / size.y;
        case Special::lanemask_eq:
            return 1u << lane;
        case Special::lanemask_le:
            return (2u << lane) - 1;
        case Special::lanemask_lt:
            return (1u << lane) - 1;
        case Special::lanemask_ge:
            return ~((1u << lane) - 1);
        case Special::lanemask_gt:
            return ~((2u << lane) - 1);
        default:
            return lane;
    }
}

// 0 tells a kernel that it was not launched cooperatively.
uint64_t workspace_of(const LaunchState* launch) {
    return launch->launch->cooperative ? reinterpret_cast<uint64_t>(launch->workspace) : 0;
}

uint64_t warp_value(const Warp* warp, Special what) {
    const LaunchState* launch = warp->block->launch;
    const Dim3 size = launch->launch->block, grid = launch->launch->grid;
    switch (what) {
        case Special::ntid_x:
            return size.x;
        case Special::ntid_y:
            return size.y;
        case Special::ntid_z:
            return size.z;
        case Special::ctaid_x:
            return warp->block->x;
        case Special::ctaid_y:
            return warp->block->y;
        case Special::ctaid_z:
            return warp->block->z;
        case Special::nctaid_x:
            return grid.x;
        case Special::nctaid_y:
            return grid.y;
        case Special::nctaid_z:
            return grid.z;
        case Special::warpid:
            return warp->index;
        case Special::nwarpid:
            return kMaxWarps;
        case Special::smid:
            return warp->block->multiprocessor;
        case Special::nsmid:
            return launch->helpers;
        case Special::grid_workspace_low:
            return uint32_t(workspace_of(launch));
        case Special::grid_workspace_high:
            return workspace_of(launch) >> 32;
        case Special::one:
            return 1;
        case Special::gridid:
            return launch->grid_id;
        case Special::dynamic_smem_size:
            return launch->launch->dynamic_shared_bytes;
        case Special::total_smem_size:
            return launch->shared_bytes;
        default:
            return 0;
    }
}

uint64_t uniform_value(const Warp* warp, const Frame* frame, const SlotInit& init) {
    const LaunchState* launch = warp->block->launch;
    switch (init.kind) {
        case SlotInit::Kind::param: {
            uint64_t bits = 0;
            std::memcpy(&bits, warp->block->params + init.index, init.bytes);
            const unsigned unused = 64 - 8u * init.bytes;
            if (init.is_signed) bits = uint64_t(int64_t(bits << unused) >> unused);
            return bits;
        }
        case SlotInit::Kind::global:
            return launch->launch->module->global_address(init.index) + init.value;
        case SlotInit::Kind::shared:
            return launch->kernel->shared_offsets[init.index] + init.value;
        case SlotInit::Kind::local:
            return frame->local_base + init.value;
        case SlotInit::Kind::special:
            return warp_value(warp, static_cast<Special>(init.index));
        default:
            return init.value;
    }
}

}  // namespace

namespace {

// Loops of a length that the compiler knows.
void fill_slot(std::byte* slot, uint64_t value, bool wide) {
    auto* lanes = reinterpret_cast<uint64_t*>(slot);
    const uint64_t pair = wide ? value : value << 32 | uint32_t(value);
    if (wide)
        for (uint32_t i = 0; i < kLanes; ++i) lanes[i] = pair;
    else
        for (uint32_t i = 0; i < kLanes / 2; ++i) lanes[i] = pair;
}

}  // namespace

void fill_block_constants(Block* block, const Function* function) {
    for (const SlotInit& init : function->block_constants) {
        const uint64_t value = warp_value(block->warps, static_cast<Special>(init.index));
        for (uint32_t w = 0; w < block->warp_count; ++w)
            fill_slot(block->warps[w].root.slots + init.slot, value, init.wide);
    }
}

void fill_constants(Warp* warp, const Frame* frame, const std::vector<SlotInit>& inits) {
    for (const SlotInit& init : inits) {
        auto* wide = reinterpret_cast<uint64_t*>(frame->slots + init.slot);
        auto* narrow = reinterpret_cast<uint32_t*>(frame->slots + init.slot);
        const auto what = static_cast<Special>(init.index);
        if (init.kind == SlotInit::Kind::special && differs_by_lane(what)) {
            for (uint32_t lane = 0; lane < kLanes; ++lane) {
                if (init.wide)
                    wide[lane] = lane_value(warp, what, lane);
                else
                    narrow[lane] = uint32_t(lane_value(warp, what, lane));
            }
            continue;
        }
        fill_slot(frame->slots + init.slot, uniform_value(warp, frame, init), init.wide);
    }
}

Frame* make_frame(const Op* op, Warp* warp, const Function* function) {
    const unsigned lane = unsigned(__builtin_ctz(warp->mask));
    Frame* caller = warp->frame;
    const uint64_t local_base = uint64_t(caller->local_base) + caller->function->local_bytes;
    const LaunchState* launch = warp->block->launch;
    if (caller->depth + 1 >= launch->call_depth ||
        local_base + function->local_bytes > warp->block->local_stride ||
        warp->frame_bytes + function->slot_bytes > kMaxFrameBytes) {
        fault(op, warp, Status::stack_overflow, lane,
              "call of " + function->name + " at a depth of " + std::to_string(caller->depth + 1) +
                  " overflows the stack: a thread's calls may be " + std::to_string(launch->call_depth) +
                  " deep and have " + std::to_string(launch->stack_bytes >> 10) +
                  " KiB; end the recursion sooner, write it as a loop, or set a larger cudaLimitStackSize "
                  "(cudaDeviceSetLimit)");
        return nullptr;
    }
    Frame** link = &warp->spare;
    while (*link != nullptr && (*link)->function != function) link = &(*link)->parent;
    Frame* frame = *link;
    if (frame != nullptr) {
        *link = frame->parent;
    } else {
        frame = new (std::nothrow) Frame{};
        void* slots = frame == nullptr ? nullptr : std::aligned_alloc(64, function->slot_bytes);
        if (slots == nullptr) {
            delete frame;
            fault(op, warp, Status::out_of_memory, lane, "no memory for the call of " + function->name);
            return nullptr;
        }
        std::memset(slots, 0, function->slot_bytes);
        frame->slots = static_cast<std::byte*>(slots);
        frame->function = function;
        frame->slot_bytes = function->slot_bytes;
        frame->next = warp->made;
        warp->made = frame;
    }
    warp->frame_bytes += frame->slot_bytes;
    frame->parent = caller;
    frame->call = op;
    frame->lanes = warp->mask;
    frame->depth = caller->depth + 1;
    frame->local_base = uint32_t(local_base);
    fill_constants(warp, frame, function->constants);
    fill_constants(warp, frame, function->block_constants);
    return frame;
}

void release_frame(Warp* warp, Frame* frame) {
    warp->frame_bytes -= frame->slot_bytes;
    frame->parent = warp->spare;
    warp->spare = frame;
}

void free_frames(Warp* warp) {
    while (Frame* frame = warp->made) {
        warp->made = frame->next;
        std::free(frame->slots);
        delete frame;
    }
    warp->spare = nullptr;
}

}  // namespace softgpu
