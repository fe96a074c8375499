// Launches: checked and with their parameters copied when they are asked for, run in their stream's turn.
#pragma once

#include "config.h"
#include "module.h"
#include "occupancy.h"

namespace softgpu::driver {

struct LaunchRequest {
    Dim3 grid, block;
    uint32_t dynamic_shared = 0;
    bool cooperative = false;
};

// A launch as an operation that can be run any number of times, with its parameters as the kernel has them.
// Throws Failure when it cannot start.
std::function<CUresult()> prepare_launch(const std::shared_ptr<Function>& function,
                                         const LaunchRequest& request, std::vector<std::byte> params);

// Whether the attributes say so. Throws NOT_SUPPORTED for those that would change what a launch means.
bool cooperative(const CUlaunchConfig& config);

// What cuda/occupancy.h wants to know: a multiprocessor of compute capability 7.5, and a kernel.
cuda::Multiprocessor multiprocessor(const Config& config);
cuda::KernelNeeds needs_of(const Function& function);

}  // namespace softgpu::driver
