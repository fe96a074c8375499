// Random numbers of the device: PyTorch counts for each of its generators a seed and an offset, and what an
// operator draws depends on these two alone. So a seed, a state that is set again, and what is computed again
// for a gradient give the same numbers.
#pragma once

#include <ATen/core/Generator.h>

#include <optional>

namespace gk {

// A generator of the processor for one operator, and the device's moves on. `given`: the program's own, if it
// gave one; else the device's.
at::Generator next_generator(const std::optional<at::Generator>& given, c10::Device device);

}  // namespace gk
