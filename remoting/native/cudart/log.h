// What the runtime says: to the user on standard error, to the log where GPU_KERNELS_LOG (forwarded) or
// GPU_KERNELS_SOFTGPU_LOG (straight) says.
#pragma once

#include <string>

#include "abi.h"

namespace cudart {

// One line on standard error, "gpu-kernels: TEXT", and in the log. For what a user must see and can act on.
void tell_user(const std::string& text);
void log_line(const std::string& text);

// For a call that this library does not have: names it in the log the first time, sets the last error.
cudaError_t unsupported(const char* name, bool* told);

}  // namespace cudart
