// What CUDA's device runtime library offers to kernels, in PTX of our own: it is linked in where a text
// declares one of its functions and none defines it.
#pragma once

#include <string_view>
#include <vector>

#include "ptx/syntax.h"

namespace softgpu::lower {

bool needs_device_runtime(const std::vector<ptx::Module>& modules);
std::string_view device_runtime();

// True for what a kernel calls to launch a kernel.
bool is_device_launch(std::string_view function);

}  // namespace softgpu::lower
