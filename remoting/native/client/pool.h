// Memory pools: the default one of each device, and those that the program makes.
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda_abi.h"
#include "handles.h"

namespace client {

struct Pool {
    uint8_t device = 0;
    uint64_t max_bytes = 0;
    uint32_t accessible_from = 0;  // a bit for each other device; by __atomic operations
    bool is_default = false;
};

// The pool with this handle; null when there is none. `wire` is what the worker knows it by.
Pool* pool_of(CUmemoryPool handle, uint64_t& wire);
CUmemoryPool default_pool(uint8_t device);
// The one that cuMemAllocAsync takes from.
CUmemoryPool current_pool(uint8_t device);
void forget_pools();

}  // namespace client
