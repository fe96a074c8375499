// Frames: their memory, and the slots that hold what does not change.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "exec/launch.h"

namespace softgpu {
namespace {

constexpr uint64_t kMaxFrameBytes = 64u << 20;  // of a warp's calls

// Specials that differ between the lanes of a warp.
bool by_lane(Special what) {
    return what <= Special::tid_z || what == Special::laneid ||
           (what >= Special::lanemask_eq && what <= Special::lanemask_gt);
}

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
        case Special::nsmid:
            return launch->helpers;
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

void fill_constants(Warp* warp, const Frame* frame, const std::vector<SlotInit>& inits) {
    for (const SlotInit& init : inits) {
        auto* wide = reinterpret_cast<uint64_t*>(frame->slots + init.slot);
        auto* narrow = reinterpret_cast<uint32_t*>(frame->slots + init.slot);
        const auto what = static_cast<Special>(init.index);
        if (init.kind == SlotInit::Kind::special && by_lane(what)) {
            for (uint32_t lane = 0; lane < kLanes; ++lane) {
                if (init.wide)
                    wide[lane] = lane_value(warp, what, lane);
                else
                    narrow[lane] = uint32_t(lane_value(warp, what, lane));
            }
            continue;
        }
        const uint64_t value = uniform_value(warp, frame, init);
        if (init.wide)
            std::fill_n(wide, kLanes, value);
        else
            std::fill_n(narrow, kLanes, uint32_t(value));
    }
}

Frame* make_frame(const Op* op, Warp* warp, const Function* function) {
    const unsigned lane = unsigned(__builtin_ctz(warp->mask));
    Frame* caller = warp->frame;
    const uint64_t local_base = uint64_t(caller->local_base) + caller->function->local_bytes;
    if (caller->depth + 1 >= Limits::call_depth ||
        local_base + function->local_bytes > warp->block->local_stride ||
        warp->frame_bytes + function->slot_bytes > kMaxFrameBytes) {
        fault(op, warp, Status::stack_overflow, lane,
              "call of " + function->name + " at a depth of " + std::to_string(caller->depth + 1) +
                  " overflows the stack");
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
