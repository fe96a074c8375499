// One lane's access to memory, as it is about to happen.
#pragma once

#include "exec/check/check.h"

namespace softgpu::check {

struct Touch {
    const Op* op;
    Warp* warp;
    uint32_t lane;
    uint32_t element, bytes;  // of one part, of all parts
    uint32_t access;
};

// `address` is a generic one.
void touch_memory(LaunchChecks& checks, BlockState& state, const Touch& touch, uint64_t address);

}  // namespace softgpu::check
