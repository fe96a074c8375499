// Limits of contexts, and what comes with the worker's welcome of them.
#include <algorithm>

#include "call.h"
#include "calls_wire.h"
#include "context.h"
#include "session.h"

namespace client {
namespace {

const wire::DeviceSnapshot& snapshot(CUdevice device) {
    return Session::get().devices()[static_cast<size_t>(device)];
}

}  // namespace
}  // namespace client

using namespace client;

extern "C" {

CUresult cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    const auto index = static_cast<uint32_t>(limit);
    if (index >= CU_LIMIT_MAX || index >= wire::kDeviceLimits) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (!pvalue) return CUDA_ERROR_INVALID_VALUE;
    const wire::DeviceSnapshot& device = snapshot(context->device);
    if (device.limit_status[index]) return static_cast<CUresult>(device.limit_status[index]);
    const bool set = context->limits_set.load(std::memory_order_acquire) >> index & 1;
    *pvalue = set ? context->limits[index].load(std::memory_order_relaxed) : device.limits[index];
    return CUDA_SUCCESS;
}

// On the server the contexts of a device are one, which has the most that any of them needs. Caches are the
// whole GPU's, whose other slices are not to be disturbed: what is said of them is kept here alone.
CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    Call call;
    if (CUresult error = call.begin()) return error;
    const auto index = static_cast<uint32_t>(limit);
    if (index >= CU_LIMIT_MAX || index >= wire::kDeviceLimits) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    Context* context = current_context();
    if (!context) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (int status = snapshot(context->device).limit_status[index]) return static_cast<CUresult>(status);
    if (takes_memory(limit)) {
        const wire::cuCtxSetLimit_message message{index,
                                                  std::max<uint64_t>(value, most_needed(*context, limit))};
        if (CUresult error = call.ask(wire::kOp_cuCtxSetLimit, 0, &message, sizeof message, nullptr, 0))
            return error;
    } else if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH) {
        static bool told;
        if (value > snapshot(context->device).limits[index])
            return gk_unsupported_once("cuCtxSetLimit for kernels that wait for kernels", &told);
    }
    context->limits[index].store(value, std::memory_order_relaxed);
    context->limits_set.fetch_or(1u << index, std::memory_order_release);
    return CUDA_SUCCESS;
}
}
