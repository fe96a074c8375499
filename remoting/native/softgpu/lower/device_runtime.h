// What CUDA's device runtime library offers to kernels, in PTX of our own: it is linked in where a text
// declares one of its functions and none defines it.
#pragma once

#include <string_view>
#include <vector>

#include "ptx/syntax.h"

namespace softgpu::lower {

bool needs_device_runtime(const std::vector<ptx::Module>& modules);
std::string_view device_runtime();

// True for a text of NVIDIA's own device runtime, of which nvcc lists an image whenever it links device code.
// It calls functions of NVIDIA's driver (`cnp...`) that are nobody else's; the one here stands in for it.
bool is_cuda_device_runtime(const ptx::Module& module);

// True for what a kernel calls to launch a kernel.
bool is_device_launch(std::string_view function);

}  // namespace softgpu::lower
