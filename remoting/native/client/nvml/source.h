// Where the answers come from: the lease's agent (lease.cc), or the software GPU itself
// (softgpu/nvml/devices.cc).
#pragma once

#include <cstdint>
#include <vector>

#include "abi.h"
#include "status_json.h"

namespace nvml {

Return ask(std::vector<Slice>& slices);

// The process numbers of those that use one of the slices, in order.
std::vector<uint32_t> processes_using();

}  // namespace nvml
