// The software GPU's log: one line a fact that the person who runs the program, or the agent, should see.
// Goes where GPU_KERNELS_SOFTGPU_LOG says: `stderr` (also when unset), `fd:N`, or the path of a file to
// append to.
#pragma once

#include <string_view>

namespace softgpu::driver {

// Writes "gpu-kernels: <text>" and a line end in one write. Any thread; never fails and takes no lock.
void log_line(std::string_view text) noexcept;

}  // namespace softgpu::driver
