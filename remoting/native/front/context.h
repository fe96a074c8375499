// What CUDA keeps of a context, whoever has it: the backends' own derive from it. And what the front's entry
// points of contexts share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda_abi.h"

namespace front {

// Read without a lock.
struct Context {
    static constexpr unsigned kApiVersion = 3020;  // of the context functions, unchanged since CUDA 3.2

    CUdevice device = 0;
    bool primary = false;
    unsigned api_version = kApiVersion;
    std::atomic<uint64_t> id{0};  // of this life; never used again
    std::atomic<unsigned> flags{0};
    std::atomic<unsigned> attached{1};  // by cuCtxCreate and cuCtxAttach
    std::atomic<int> cache_config{CU_FUNC_CACHE_PREFER_NONE};
};

// The context with this handle, or for null the current one. It lives; throws INVALID_CONTEXT, or
// CONTEXT_IS_DESTROYED for a current one that has ended.
std::shared_ptr<Context> context_or_current(CUcontext handle);
// The calling thread's, for calls that an error of its work ends, and that a function may not make which a
// stream calls.
std::shared_ptr<Context> working_context();
// A function that a stream calls begins and ends no context.
void require_outside_callback();
// What a program may say of how a context waits, and of what it can do.
void require_flags(unsigned flags);

// The calling thread's stack. A program that pushes and never pops is told so, before it has used up the
// host's memory.
std::vector<uint64_t>& stack_with_room();
void push(CUcontext handle);
CUcontext top();  // null where there is none

// Throws INVALID_CONTEXT unless the context lives, or may begin again now that it is made current.
void require_enterable(CUcontext handle);
// The flags of a device's primary context, which are there before it too, and after it has ended.
void set_primary_flags(CUdevice device, unsigned flags);

}  // namespace front
