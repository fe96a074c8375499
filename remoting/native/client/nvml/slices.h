// The lease's slices as the agent last told them: asked for when they are needed, remembered shortly.
#pragma once

#include <vector>

#include "abi.h"
#include "status_json.h"

namespace nvml {

// Counts nvmlInit calls. The first asks the agent, so that a process without a GPU learns it here.
Return start();
Return stop();
bool is_started();

// A copy of all slices, at most some 200 ms old. An agent that cannot be reached is kTimeout; one that knows
// the lease no more, kGpuIsLost.
Return all(std::vector<Slice>& slices);

// The slice that a handle stands for. kInvalidArgument for what never was a handle.
Return slice_of(Device device, Slice& slice);

// Handles are the addresses of places in a table; they stay good for the life of the process.
Device handle_of(unsigned index);
bool index_of(Device device, unsigned& index);

}  // namespace nvml
