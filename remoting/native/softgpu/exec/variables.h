// Which device memory is a program's variables, placed by LoadedModule: of that a person who looks for what
// a pointer has missed hears only where it is meant.
#pragma once

#include <cstdint>

namespace softgpu {

// By the address where it begins. Any thread. `variable_placed` may throw std::bad_alloc.
void variable_placed(uint64_t base);
void variable_gone(uint64_t base) noexcept;
bool is_variable(uint64_t base) noexcept;

}  // namespace softgpu
