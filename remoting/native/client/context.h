// Contexts, current ones and their stacks live in the client alone: the worker has one context a device, made
// before the first call. What a context owns carries its id; when the context ends, the client takes all of
// that off its tables and gives it back to the worker.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "cuda_abi.h"
#include "front/context.h"
#include "handles.h"

namespace client {

// A slot of the table of contexts (handles.h): read without a lock. Its id is 0 where it does not live: a
// primary context that nobody has retained.
struct Context : front::Context {
    uint64_t handle = 0;                  // the CUcontext
    std::atomic<uint32_t> limits_set{0};  // bits by CUlimit
    std::atomic<uint64_t> limits[wire::kDeviceLimits] = {};
};

// Null when the thread has none, or it has ended.
Context* current_context();
// The same with the reason: INVALID_CONTEXT, or CONTEXT_IS_DESTROYED.
CUresult find_current(Context*& context);
// Null for what is not a context that lives.
Context* context_of(CUcontext handle);
// `handle`, or the current one for null.
CUresult find_context(CUcontext handle, Context*& context);
// The context with this id, or null.
Context* context_with(uint64_t id);
// 0 when there is none.
uint64_t current_context_id();
// Limits for which the GPU's memory is taken.
constexpr bool takes_memory(CUlimit limit) {
    return limit == CU_LIMIT_STACK_SIZE || limit == CU_LIMIT_PRINTF_FIFO_SIZE ||
           limit == CU_LIMIT_MALLOC_HEAP_SIZE || limit == CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT;
}
// The most that another context on the same device has set; 0 when none has.
uint64_t most_needed(const Context& besides, CUlimit limit);

inline CUcontext handle_of(const Context* context) {
    return reinterpret_cast<CUcontext>(context ? context->handle : 0);
}

// Makes a context current while this lives.
class AsCurrent {
  public:
    explicit AsCurrent(const Context& context);
    ~AsCurrent();
    AsCurrent(const AsCurrent&) = delete;
    AsCurrent& operator=(const AsCurrent&) = delete;
};

// A context made by cuCtxCreate, not yet current; 0 when there are too many.
uint64_t add_context(uint8_t device, unsigned flags, unsigned api_version);
// Gives back what `context` owns. It is no longer to be found.
CUresult end_life(Context& context);

// A device's primary context, of which nothing need be there. Those who begin and end the same one exclude
// each other (front/primary_context.cc).
Context& primary_context(uint8_t device);
CUresult begin_primary_context(uint8_t device, unsigned flags);
// The device whose primary context it is, where that was used in an earlier life of the process and not yet
// in this. Who has used it may go on: it begins again when it is made current or retained.
std::optional<uint8_t> primary_to_begin_again(CUcontext handle);
// No context is there any more (life.h). A device's primary one keeps its handle, as it does when it is
// reset.
void forget_contexts();

// CUDA_SUCCESS when cuInit has succeeded and `device` is one of the devices. Begins another life where one
// was ended: before anything is looked up, and without a lock.
CUresult check_device(CUdevice device);
// The same for calls that give something up: no life begins for it.
CUresult check_device_to_leave(CUdevice device);

}  // namespace client
