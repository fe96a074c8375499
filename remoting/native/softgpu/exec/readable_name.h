// Names of kernels and variables as their source has them, for messages.
#pragma once

#include <string>

namespace softgpu {

// "total" of "_Z5totalPKfPf" and of numba's "_ZN8__main__5totalB2v1...", "part" of "_ZZ5totalPKfPfE4part". A
// name that is not mangled stays as it is. Whole signatures would only make a message hard to read.
std::string readable_name(const std::string& name);

}  // namespace softgpu
