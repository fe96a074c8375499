// What the kernels of a launch launch themselves, and the order in which it runs.
//
// All that a grid has launched runs after the grid, one after the other in the order of its launches, each
// with all that it launches in turn before the next; what went into the tail launch stream comes last. Why no
// program can tell, but by time:
// - CUDA promises no more than that a child begins after its launch. It never promises that parent and child
//   run side by side, and a kernel cannot wait for one that it has launched.
// - The child sees what its launcher saw at the launch, and what the rest of the parent's grid has written
// since,
//   which it may see on a GPU too. A child that waits for what its parent has yet to do never waits in vain.
// - One order of all serves each: that of a stream, that of a stream that waits for another's event, that of
// no
//   order. A child's own launches are over before its stream goes on, since it is complete only then.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "exec/image.h"
#include "exec/op.h"

namespace softgpu {

// cudaError_t, as far as kernels hear of it.
enum class DeviceError : uint16_t {
    none = 0,
    invalid_value = 1,
    out_of_memory = 2,
    invalid_configuration = 9,
    invalid_pitch = 12,
    invalid_direction = 21,
    too_deep = 65,
    too_many_pending = 69,
    no_kernel = 98,
    invalid_device = 101,
    unsupported_limit = 215,
    invalid_handle = 400,
};

// Rows of bytes.
struct DeviceRows {
    uint64_t address = 0, pitch = 0;
};

struct DeviceWork {
    enum class Kind : uint8_t { kernel, copy, fill };
    Kind kind = Kind::kernel;
    uint8_t value = 0;                                 // of a fill
    uint32_t launcher = 0;                             // the kernel that has launched it
    uint32_t depth = 0;                                // 1 for what the host's kernel launches
    static constexpr uint32_t kNoKernel = UINT32_MAX;  // a buffer for one that is named at the launch
    uint32_t kernel = kNoKernel;
    uint32_t dynamic_shared_bytes = 0;
    Dim3 grid, block;
    uint64_t params = 0, param_bytes = 0;  // in device memory
    DeviceRows to, from;
    uint64_t width = 0, rows = 0;
};

class DeviceLaunches {
  public:
    static constexpr uint32_t kMostDepth = 24;

    explicit DeviceLaunches(const Launch& root);
    ~DeviceLaunches();
    DeviceLaunches(const DeviceLaunches&) = delete;
    DeviceLaunches& operator=(const DeviceLaunches&) = delete;

    // What follows is for kernels: any host thread, while a grid runs.

    // Room for the parameters of `work`, until it is launched or the grid ends.
    DeviceError add_buffer(const DeviceWork& work, uint64_t bytes, uint64_t& address);
    // Takes a buffer for its launch; empty for an address that is none.
    std::optional<DeviceWork> take_buffer(uint64_t address);
    // Gives a buffer's room back.
    void drop(const DeviceWork& work);
    // A kernel whose buffer was taken, or a copy or fill of its own.
    DeviceError launch(DeviceWork work, uint64_t stream);

    enum class Handle : uint64_t { stream = 0x5354'0000'0000'0000, event = 0x4556'0000'0000'0000 };
    uint64_t make(Handle kind);
    // Is it one that this grid has made?
    bool is(Handle kind, uint64_t handle);

    // The last error of a thread of a block.
    void set_error(const Block* block, uint32_t thread, DeviceError error);
    DeviceError error(const Block* block, uint32_t thread, bool forget);
    // True for the first of its kind, an error or else: the others are the same again.
    bool is_news(uint32_t what);

    // And this for who runs the grids.

    void grid_ended();
    std::optional<DeviceWork> next();
    // Of a kernel that is launched a thousand times, what its checks find is told once.
    bool first_findings_of(uint32_t kernel) { return told_findings_of_.insert(kernel).second; }

  private:
    struct Errors {
        uint32_t x = 0, y = 0, z = 0;
        std::vector<DeviceError> by_thread;
    };
    Errors* errors_of(const Block* block);
    DeviceError refused_now() const;  // with mutex_ held

    DeviceMemory& memory_;
    const uint32_t most_pending_;
    std::mutex mutex_;
    uint32_t depth_ = 0;    // of the grid that runs
    uint64_t handles_ = 0;  // made so far, and before this grid
    uint64_t handles_before_ = 0;
    std::unordered_map<uint64_t, DeviceWork> buffers_;  // by address
    std::vector<DeviceWork> launched_, tails_;          // by this grid
    std::vector<DeviceWork> waiting_;                   // of all grids before; the last one is the next
    std::map<const Block*, Errors> errors_;
    std::set<uint32_t> told_;
    std::set<uint32_t> told_findings_of_;
};

// Does what a copy or fill says. Bounds are checked here, not at the launch: it may be of memory that is
// still to be allocated.
LaunchResult run_memory_work(DeviceMemory& memory, const DeviceWork& work);

}  // namespace softgpu
