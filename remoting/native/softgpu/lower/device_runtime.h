// What CUDA's device runtime library offers to kernels, in PTX of our own: it is linked in where a text
// declares one of its functions and none defines it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exec/image.h"
#include "ptx/syntax.h"

namespace softgpu::lower {

// Empty where no text needs any.
std::vector<std::string_view> device_runtime_for(const std::vector<ptx::Module>& modules);

// True for a text of NVIDIA's own device runtime, of which nvcc lists an image whenever it links device code.
// It calls functions of NVIDIA's driver (`cnp...`) that are nobody else's; the one here stands in for it.
bool is_cuda_device_runtime(const ptx::Module& module);

// What a call of this name is, if the engine does it itself; `none` for others.
Builtin find_builtin(std::string_view name);

// Why kernels cannot call a function of the device runtime that is not here; empty for other names.
std::string why_not_in_kernels(std::string_view name);

}  // namespace softgpu::lower
