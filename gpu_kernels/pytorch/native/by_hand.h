#pragma once

#include <torch/library.h>

#include <functional>

namespace gk {

// Adds to the processor's operators those that `lacks` says it has no kernel for, as far as they are written
// here.
void add_missing(torch::Library& processor, const std::function<bool(const char*)>& lacks);

// Puts kernels in the place of the device's that need more than the processor's kernel.
void add_to_device(torch::Library& device);

}  // namespace gk
