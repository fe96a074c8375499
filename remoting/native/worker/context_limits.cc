#include "context_limits.h"

#include <algorithm>
#include <array>
#include <optional>

#include "handlers.h"

namespace worker {
namespace {

constexpr std::array kLimits = {CU_LIMIT_STACK_SIZE, CU_LIMIT_PRINTF_FIFO_SIZE, CU_LIMIT_MALLOC_HEAP_SIZE,
                                CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT};

// Of a launch by a kernel. Drivers do not say what they take; most of it is room for the parameters, of which
// launches had up to so many bytes before PTX 8.1.
constexpr uint64_t kPendingBytes = 4096;

// What the driver takes of the GPU for one unit of the limit: a stack is there for each thread that can run.
uint64_t bytes_of_unit(const Device& device, CUlimit limit) {
    if (limit == CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT) return kPendingBytes;
    return limit == CU_LIMIT_STACK_SIZE ? resident_threads(device) : 1;
}

}  // namespace

// With mutex_ held. Takes what is more before the driver is asked, and gives back what is less after that.
CUresult ContextLimits::apply(Worker& worker, uint8_t device, CUlimit limit, Limit& state) {
    const Device& on = worker.devices[device];
    const uint64_t first = on.snapshot.limits[limit];
    uint64_t value = first;
    for (const auto& [session, need] : state.needs) value = std::max(value, need);
    const uint64_t more = times(value - first, bytes_of_unit(on, limit));
    const uint64_t charge = more == 0 ? 0 : MemoryLedger::charge_of(more);
    const uint64_t before = state.charged;
    if (charge > before && !worker.memory.reserve(device, charge - before)) {
        worker.room.look();
        if (!worker.memory.reserve(device, charge - before)) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const CUresult result = invoke(worker.driver.cuCtxSetLimit, limit, static_cast<size_t>(value));
    if (result == CUDA_SUCCESS) state.charged = charge;
    // The larger one of both was taken; the context has one of them.
    worker.memory.give_back(device, std::max(charge, before) - state.charged);
    return result;
}

CUresult ContextLimits::set(Worker& worker, const Session* owner, uint8_t device, CUlimit limit,
                            uint64_t value) {
    if (std::find(kLimits.begin(), kLimits.end(), limit) == kLimits.end())
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    const std::lock_guard lock(mutex_);
    Limit& state = limits_[{device, limit}];
    const auto found = state.needs.find(owner);
    const auto before = found == state.needs.end() ? std::nullopt : std::optional(found->second);
    state.needs[owner] = value;
    const CUresult result = apply(worker, device, limit, state);
    if (result == CUDA_SUCCESS) return result;
    if (before) {
        state.needs[owner] = *before;
    } else {
        state.needs.erase(owner);
    }
    return result;
}

void ContextLimits::forget(Worker& worker, const Session* owner, uint8_t device) {
    const std::lock_guard lock(mutex_);
    for (const CUlimit limit : kLimits) {
        const auto found = limits_.find({device, limit});
        if (found != limits_.end() && found->second.needs.erase(owner))
            apply(worker, device, limit, found->second);
    }
}

CUresult run_cuCtxSetLimit(Context& context, uint8_t, const wire::cuCtxSetLimit_message& message,
                           wire::Writer&) {
    const auto limit = static_cast<CUlimit>(message.limit);
    const CUresult result = context.worker().limits.set(context.worker(), &context.session(),
                                                        context.device(), limit, message.value);
    // What the driver has handed over waits with the session, in as much room.
    if (result == CUDA_SUCCESS && limit == CU_LIMIT_PRINTF_FIFO_SIZE)
        context.session().notices.set_output_room(message.value);
    return result;
}

}  // namespace worker
