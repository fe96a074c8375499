// Contexts, current ones and their stacks live in the client alone: the worker has one context a device, made
// before the first call.
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda_abi.h"

namespace client {

// The primary context of a device. Its address is the CUcontext; all of them are in one array that lasts as
// long as the process, so a CUcontext is checked by its place in it.
struct Context {
    uint8_t device = 0;
    std::atomic<int> retained{0};
    std::atomic<unsigned> flags{0};
    std::atomic<int> cache_config{CU_FUNC_CACHE_PREFER_NONE};
};

// Null when the thread has none, or it is not a context any more.
Context* current_context();
Context* context_of(CUcontext handle);
Context& primary_context(uint8_t device);
inline CUcontext handle_of(Context* context) {
    return reinterpret_cast<CUcontext>(context);
}

// The default memory pool of a device, and back; -1 for another handle.
CUmemoryPool pool_of_device(int device);
int device_of_pool(CUmemoryPool pool);

// CUDA_SUCCESS when cuInit has succeeded and `device` is one of the devices.
CUresult check_device(CUdevice device);

}  // namespace client
