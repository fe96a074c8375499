// Entry points: contexts that programs make, and what each of them is.
#include "context.h"

#include "platform.h"

using namespace front;

namespace {

CUresult create(CUcontext* out, unsigned flags, CUdevice device, unsigned api_version) {
    return call([&] {
        platform::require_device(device);
        require(out != nullptr);
        require_flags(flags);
        require_outside_callback();
        stack_with_room();
        const CUcontext made = platform::begin_context(device, flags, api_version);
        push(made);
        *out = made;
    });
}

void destroy(CUcontext handle, Context& context) {
    require(!context.primary, CUDA_ERROR_INVALID_CONTEXT);
    require_outside_callback();
    if (top() == handle) platform::context_stack().pop_back();
    platform::end_context(context)();
}

}  // namespace

std::shared_ptr<Context> front::context_or_current(CUcontext handle) {
    if (!handle) return platform::current_context();
    auto context = platform::find_context(handle);
    require(context != nullptr, CUDA_ERROR_INVALID_CONTEXT);
    return context;
}

std::shared_ptr<Context> front::working_context() {
    require_outside_callback();
    auto context = platform::current_context();
    platform::require_working(*context);
    return context;
}

void front::require_outside_callback() {
    require(!platform::in_callback(), CUDA_ERROR_NOT_PERMITTED);
}

void front::require_flags(unsigned flags) {
    constexpr unsigned kFlags = CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX |
                                CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE | CU_CTX_SYNC_MEMOPS;
    const unsigned schedule = flags & CU_CTX_SCHED_MASK;
    require((flags & ~kFlags) == 0 && (schedule & (schedule - 1)) == 0);
}

extern "C" {

CUresult cuCtxCreate(CUcontext* pctx, unsigned int flags, CUdevice dev) {
    return create(pctx, flags, dev, 3010);
}
CUresult cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) {
    return create(pctx, flags, dev, Context::kApiVersion);
}
CUresult cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams, unsigned int flags,
                        CUdevice dev) {
    if (numParams != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(pctx, flags, dev, Context::kApiVersion);
}
CUresult cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags,
                        CUdevice dev) {
    if (ctxCreateParams && ctxCreateParams->numExecAffinityParams != 0) {
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    }
    if (ctxCreateParams && ctxCreateParams->cigParams) return CUDA_ERROR_NOT_SUPPORTED;
    return create(pctx, flags, dev, Context::kApiVersion);
}

CUresult cuCtxDestroy_v2(CUcontext ctx) {
    return call([&] {
        const auto context = platform::find_context(ctx);
        require(context != nullptr, CUDA_ERROR_INVALID_CONTEXT);
        destroy(ctx, *context);
    });
}
CUresult cuCtxDestroy(CUcontext ctx) {
    return cuCtxDestroy_v2(ctx);
}

// Only its own calls use this count; cuCtxDestroy destroys whatever it is.
CUresult cuCtxAttach(CUcontext* pctx, unsigned int flags) {
    return call([&] {
        const auto context = platform::current_context();
        require(pctx != nullptr && flags == 0);
        require(!context->primary, CUDA_ERROR_INVALID_CONTEXT);
        ++context->attached;
        *pctx = top();
    });
}

CUresult cuCtxDetach(CUcontext ctx) {
    return call([&] {
        const auto context = platform::current_context();
        require(ctx == top() && !context->primary, CUDA_ERROR_INVALID_CONTEXT);
        require_outside_callback();
        if (--context->attached == 0) destroy(ctx, *context);
    });
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
    return call([&] {
        require(device != nullptr);
        *device = context_or_current(ctx)->device;
    });
}
CUresult cuCtxGetDevice(CUdevice* device) {
    return cuCtxGetDevice_v2(device, nullptr);
}

CUresult cuCtxGetFlags(unsigned int* flags) {
    return call([&] {
        require(flags != nullptr);
        *flags = platform::current_context()->flags;
    });
}

CUresult cuCtxSetFlags(unsigned int flags) {
    return call([&] {
        const auto context = platform::current_context();
        require_flags(flags);
        if (context->primary) set_primary_flags(context->device, flags);
        if (!context->primary) context->flags = flags;
    });
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
    return call([&] {
        require(ctxId != nullptr);
        *ctxId = context_or_current(ctx)->id;
    });
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
    return call([&] {
        require(version != nullptr);
        *version = context_or_current(ctx)->api_version;
    });
}
}
