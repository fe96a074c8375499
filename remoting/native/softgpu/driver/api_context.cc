// Entry points: initialisation, contexts and each thread's stack of them.
#include "capture.h"
#include "driver.h"
#include "session.h"
#include "thread_state.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

constexpr unsigned kContextFlags = CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX |
                                   CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE | CU_CTX_SYNC_MEMOPS;

void require_flags(unsigned flags) {
    const unsigned schedule = flags & CU_CTX_SCHED_MASK;
    require((flags & ~kContextFlags) == 0 && (schedule & (schedule - 1)) == 0);
}

CUcontext handle_of(const Context& context) {
    return as_handle<CUcontext>(context.handle);
}

// A program that pushes and never pops is told so, before it has used up the host's memory.
void require_room() {
    constexpr size_t kDeepest = 1 << 16;
    require(thread_state().contexts.size() < kDeepest, CUDA_ERROR_OUT_OF_MEMORY);
}

void destroy(Context& context) {
    require(!context.primary, CUDA_ERROR_INVALID_CONTEXT);
    const uint64_t handle = context.handle;
    context.destroy();
    auto& stack = thread_state().contexts;
    if (!stack.empty() && stack.back() == handle) stack.pop_back();
}

CUresult create(CUcontext* pctx, unsigned flags, CUdevice dev, unsigned api_version = Context::kApiVersion) {
    return driver_call([&](Driver& driver) {
        require(pctx != nullptr);
        require_flags(flags);
        require_device(dev);
        require_room();
        const auto context = Context::create(driver, dev, flags, false);
        context->api_version = api_version;
        driver.handles.add(context);
        thread_state().contexts.push_back(context->handle);
        *pctx = handle_of(*context);
    });
}

// Waits for all work of the context; what it answers is the first error of that work.
CUresult synchronize(Context& context) {
    if (graphs::any_capture()) graphs::refuse_context(context.id);
    require_safe_in_captures();
    context.driver.scheduler.drain(context.group);
    return answer_of_wait(context.status());
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned int Flags) {
    return Flags == 0 ? Driver::initialize() : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
    return driver_call([&](Driver& driver) {
        require(pctx != nullptr);
        require_device(dev);
        *pctx = handle_of(*driver.retain_primary(dev));
    });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
    return driver_call([&](Driver& driver) {
        require_device(dev);
        driver.release_primary(dev);
    });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
    return cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
    return driver_call([&](Driver& driver) {
        require_device(dev);
        driver.reset_primary(dev);
    });
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
    return cuDevicePrimaryCtxReset_v2(dev);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
    return driver_call([&](Driver& driver) {
        require_device(dev);
        require_flags(flags);
        driver.set_primary_flags(dev, flags);
    });
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
    return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
    return driver_call([&](Driver& driver) {
        require(flags != nullptr && active != nullptr);
        require_device(dev);
        const auto state = driver.primary_state(dev);
        *flags = state.flags;
        *active = state.active;
    });
}

CUresult cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) {
    return create(pctx, flags, dev);
}

CUresult cuCtxCreate(CUcontext* pctx, unsigned int flags, CUdevice dev) {
    return create(pctx, flags, dev, 3010);
}

CUresult cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams, unsigned int flags,
                        CUdevice dev) {
    if (numParams != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags,
                        CUdevice dev) {
    if (ctxCreateParams && ctxCreateParams->numExecAffinityParams != 0) {
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    }
    if (ctxCreateParams && ctxCreateParams->cigParams) return CUDA_ERROR_NOT_SUPPORTED;
    return create(pctx, flags, dev);
}

CUresult cuCtxDestroy_v2(CUcontext ctx) {
    return driver_call(
        [&](Driver& driver) { destroy(*driver.handles.get<Context>(ctx, CUDA_ERROR_INVALID_CONTEXT)); });
}

CUresult cuCtxDestroy(CUcontext ctx) {
    return cuCtxDestroy_v2(ctx);
}

// Only its own calls use this count; cuCtxDestroy destroys whatever it is.
CUresult cuCtxAttach(CUcontext* pctx, unsigned int flags) {
    return driver_call([&](Driver& driver) {
        require(pctx != nullptr && flags == 0);
        const auto context = driver.current();
        require(!context->primary, CUDA_ERROR_INVALID_CONTEXT);
        ++context->attached;
        *pctx = handle_of(*context);
    });
}

CUresult cuCtxDetach(CUcontext ctx) {
    return driver_call([&](Driver& driver) {
        const auto context = driver.handles.get<Context>(ctx, CUDA_ERROR_INVALID_CONTEXT);
        require(!context->primary && driver.current() == context, CUDA_ERROR_INVALID_CONTEXT);
        if (--context->attached == 0) destroy(*context);
    });
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
    return driver_call([&](Driver& driver) {
        require_room();
        thread_state().contexts.push_back(
            driver.handles.get<Context>(ctx, CUDA_ERROR_INVALID_CONTEXT)->handle);
    });
}

CUresult cuCtxPushCurrent(CUcontext ctx) {
    return cuCtxPushCurrent_v2(ctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext* pctx) {
    return driver_call([&](Driver&) {
        auto& stack = thread_state().contexts;
        require(!stack.empty(), CUDA_ERROR_INVALID_CONTEXT);
        if (pctx) *pctx = as_handle<CUcontext>(stack.back());
        stack.pop_back();
    });
}

CUresult cuCtxPopCurrent(CUcontext* pctx) {
    return cuCtxPopCurrent_v2(pctx);
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
    return driver_call([&](Driver& driver) {
        auto& stack = thread_state().contexts;
        if (!ctx) {
            if (!stack.empty()) stack.pop_back();
            return;
        }
        const uint64_t handle = driver.handles.get<Context>(ctx, CUDA_ERROR_INVALID_CONTEXT)->handle;
        if (stack.empty()) {
            stack.push_back(handle);
        } else {
            stack.back() = handle;
        }
    });
}

CUresult cuCtxGetCurrent(CUcontext* pctx) {
    return driver_call([&](Driver&) {
        require(pctx != nullptr);
        const auto& stack = thread_state().contexts;
        *pctx = stack.empty() ? nullptr : as_handle<CUcontext>(stack.back());
    });
}

CUresult cuCtxGetDevice(CUdevice* device) {
    return driver_call([&](Driver& driver) {
        require(device != nullptr);
        *device = driver.current()->device;
    });
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
    return driver_call([&](Driver& driver) {
        require(device != nullptr);
        *device = driver.context(ctx)->device;
    });
}

CUresult cuCtxGetFlags(unsigned int* flags) {
    return driver_call([&](Driver& driver) {
        require(flags != nullptr);
        *flags = driver.current()->flags;
    });
}

CUresult cuCtxSetFlags(unsigned int flags) {
    return driver_call([&](Driver& driver) {
        require_flags(flags);
        driver.current()->flags = flags;
    });
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
    return driver_call([&](Driver& driver) {
        require(ctxId != nullptr);
        *ctxId = driver.context(ctx)->id;
    });
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
    return driver_call([&](Driver& driver) {
        require(version != nullptr);
        *version = driver.context(ctx)->api_version;
    });
}

CUresult cuCtxSynchronize(void) {
    return context_call([](Context& context) { return synchronize(context); });
}

CUresult cuCtxSynchronize_v2(CUcontext ctx) {
    return driver_call([&](Driver& driver) {
        const auto context = driver.context(ctx);
        check(context->status());
        return synchronize(*context);
    });
}

CUresult cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
    return context_call([&](Context& context) {
        require(pvalue != nullptr);
        *pvalue = context.limit(limit);
    });
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    return context_call([&](Context& context) { context.set_limit(limit, value); });
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* pconfig) {
    return context_call([&](Context& context) {
        require(pconfig != nullptr);
        *pconfig = static_cast<CUfunc_cache>(context.cache_config.load());
    });
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
    return context_call([&](Context& context) {
        require(config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL);
        context.cache_config = config;
    });
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig* pConfig) {
    return context_call([&](Context&) {
        require(pConfig != nullptr);
        *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    });
}

// A hint about banks, which the software GPU's shared memory does not have.
CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
    return context_call([&](Context&) {
        require(config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE &&
                config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
    });
}

CUresult cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
    return context_call([&](Context&) {
        if (leastPriority) *leastPriority = 0;
        if (greatestPriority) *greatestPriority = kGreatestPriority;
    });
}

CUresult cuCtxResetPersistingL2Cache(void) {
    return context_call([](Context&) {});
}

CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
    return driver_call([&](Driver& driver) {
        const auto context = driver.context(hCtx);
        check(context->status());
        const auto event = driver.handles.get<Event>(hEvent);
        require(event->context == context, CUDA_ERROR_INVALID_HANDLE);
        Operation marker;
        const auto queue = context->legacy_stream()->queue;
        // The legacy queue's order covers the blocking queues; this covers the others too.
        marker.after = driver.scheduler.pending(context->group);
        event->set({driver.scheduler.submit(queue, std::move(marker)), queue});
    });
}

// All that is submitted to the context from now on waits for the event.
CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
    return driver_call([&](Driver& driver) {
        const auto context = driver.context(hCtx);
        check(context->status());
        const auto record = driver.handles.get<Event>(hEvent)->record();
        if (!record.completion || record.completion->done()) return;
        driver.scheduler.submit_to_all(context->group, record.completion);
    });
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam* pExecAffinity, CUexecAffinityType type) {
    return context_call([&](Context&) {
        require(pExecAffinity != nullptr && type == CU_EXEC_AFFINITY_TYPE_SM_COUNT);
        refuse(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    });
}

// No software GPU reaches another one's memory; copies between them work (cuMemcpyPeer).
CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
    return context_call([&](Context& context) {
        const auto peer = context.driver.handles.get<Context>(peerContext, CUDA_ERROR_INVALID_CONTEXT);
        require(Flags == 0);
        refuse(peer->device == context.device ? CUDA_ERROR_INVALID_DEVICE
                                              : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    });
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext) {
    return context_call([&](Context& context) {
        context.driver.handles.get<Context>(peerContext, CUDA_ERROR_INVALID_CONTEXT);
        refuse(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    });
}
}
