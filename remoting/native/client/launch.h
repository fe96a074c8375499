// What a launch on a stream and a kernel node of a graph have in common.
#pragma once

#include <span>

#include "library.h"
#include "occupancy.h"

namespace client {

struct Shape {
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared_bytes;
};

// What CUDA refuses at once is refused here, so that the error appears at the launch and not later.
CUresult check_launch(const Shape& shape, const Kernel& kernel, const wire::DeviceSnapshot& device,
                      std::span<const CUlaunchAttribute> attributes);
// What cuda/occupancy.h wants to know (occupancy.cc).
cuda::Multiprocessor multiprocessor(const wire::DeviceSnapshot& device);
cuda::KernelNeeds needs_of(const Kernel& kernel);
// How many blocks of the kernel fit the device at once; 0 when it does not say.
uint64_t blocks_at_once(const wire::DeviceSnapshot& device, const Kernel& kernel, int threads,
                        size_t dynamic_shared);
// `sent` holds wire::kMaxLaunchAttributes.
void to_wire(std::span<const CUlaunchAttribute> attributes, wire::LaunchAttribute* sent);
wire::LaunchHead launch_head(const Shape& shape, const Kernel& kernel, uint64_t stream,
                             size_t attribute_count);

}  // namespace client
