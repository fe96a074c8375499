// Where the answers come from: the lease's agent (lease.cc), or the software GPU itself
// (softgpu/nvml/devices.cc).
#pragma once

#include <cstdint>
#include <vector>

#include "abi.h"
#include "status_json.h"

namespace nvml {

Return ask(std::vector<Slice>& slices);

inline constexpr uint64_t kNotKnown = ~uint64_t{0};  // NVML's value for memory that nobody can tell

struct User {
    uint32_t pid;
    uint64_t bytes;  // what it has allocated on the slice, or kNotKnown
};

// Those that use one of the slices, in the order of their numbers, and what each has on that of `index`.
std::vector<User> users_of(unsigned index);

}  // namespace nvml
