// The state of one launch, and what a host thread needs to run its blocks.
#pragma once

#include <atomic>
#include <mutex>

#include "exec/image.h"
#include "exec/op.h"

namespace softgpu {
namespace check {
class LaunchChecks;
}

class DeviceLaunches;

struct LaunchState {
    const Launch* launch = nullptr;
    const Image* image = nullptr;
    const Kernel* kernel = nullptr;
    const KernelInfo* info = nullptr;
    const Function* function = nullptr;
    DeviceMemory* memory = nullptr;
    check::LaunchChecks* checks = nullptr;  // of a program that is checked
    DeviceLaunches* children = nullptr;     // what its kernel launches
    uint64_t blocks = 0;
    uint64_t grid_id = 0;
    uint32_t threads = 0;  // of a block
    uint32_t warps = 0;
    uint32_t shared_bytes = 0;
    uint64_t local_stride = 0;
    uint64_t stack_bytes = 0;  // of local memory, for calls of a depth that is not known
    uint32_t call_depth = Limits::call_depth;
    uint32_t helpers = 1;
    std::atomic<uint32_t> workers{0};  // that have begun
    // What cooperative groups call the grid's workspace: its size, then the barrier that all blocks count on.
    // Kernels reach it by its address while a cooperative launch runs.
    alignas(64) uint32_t workspace[16] = {sizeof workspace, 0};
    std::atomic<uint64_t> next_block{0};
    std::atomic<bool> stop{false};
    std::mutex mutex;  // of result
    LaunchResult result;
};

// Why the kernel cannot have such a grid; empty when it can.
std::string refuse_shape(const KernelInfo& info, Dim3 grid, Dim3 block, uint32_t dynamic_shared_bytes);

// What was asked of the launch from outside: ok, cancelled or interrupted.
LaunchResult asked_to_stop(const Launch& launch, const KernelInfo& info);

// True when the launch has failed elsewhere or was cancelled.
bool launch_stopping(const Block* block);

// The first failure of a launch is its result.
void fail_launch(LaunchState* launch, Status status, std::string detail);

// "kernel add, block (0,0,0), thread (5,0,0)" and the PTX line after.
std::string describe_place(const Warp* warp, unsigned lane);
std::string describe_line(const LaunchState* launch, const Op* op);
const Op* fault(const Op* op, Warp* warp, Status status, unsigned lane, const std::string& what);

// Fills a frame's slots that no instruction writes.
void fill_constants(Warp* warp, const Frame* frame, const std::vector<SlotInit>& inits);

// Does it differ between the lanes of a warp?
bool differs_by_lane(Special what);

// Those of all warps of a block that its place in the grid decides.
void fill_block_constants(Block* block, const Function* function);

// A frame for a call from the running split, null after a fault.
Frame* make_frame(const Op* op, Warp* warp, const Function* function);
void release_frame(Warp* warp, Frame* frame);
void free_frames(Warp* warp);

// Host pointer to a generic address of one lane, null when it is not accessible.
std::byte* resolve(Warp* warp, unsigned lane, uint64_t address, uint64_t bytes);

const Op* call_builtin(const Op* op, Warp* warp, const CallSite& site);

}  // namespace softgpu
