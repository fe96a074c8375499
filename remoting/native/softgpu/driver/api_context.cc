// Entry points: contexts and each thread's stack of them.
#include "driver.h"
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

CUresult create(CUcontext* pctx, unsigned flags, CUdevice dev) {
    return driver_call([&](Driver& driver) {
        require(pctx != nullptr);
        require_flags(flags);
        require_device(dev);
        const auto context = Context::create(driver, flags, false);
        driver.handles.add(context);
        thread_state().contexts.push_back(context->handle);
        *pctx = handle_of(*context);
    });
}

// Waits for all work of the context; what it answers is the first error of that work.
CUresult synchronize(Context& context) {
    context.driver.scheduler.drain(context.group);
    return context.status();
}

}  // namespace

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
    return driver_call([&](Driver& driver) {
        require(pctx != nullptr);
        require_device(dev);
        *pctx = handle_of(*driver.retain_primary());
    });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
    return driver_call([&](Driver& driver) {
        require_device(dev);
        driver.release_primary();
    });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
    return cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
    return driver_call([&](Driver& driver) {
        require_device(dev);
        driver.reset_primary();
    });
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
    return cuDevicePrimaryCtxReset_v2(dev);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
    return driver_call([&](Driver& driver) {
        require_device(dev);
        require_flags(flags);
        driver.set_primary_flags(flags);
    });
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
    return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
    return driver_call([&](Driver& driver) {
        require(flags != nullptr && active != nullptr);
        require_device(dev);
        const auto state = driver.primary_state();
        *flags = state.flags;
        *active = state.active;
    });
}

CUresult cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) {
    return create(pctx, flags, dev);
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
    return driver_call([&](Driver& driver) {
        const auto context = driver.handles.get<Context>(ctx, CUDA_ERROR_INVALID_CONTEXT);
        require(!context->primary, CUDA_ERROR_INVALID_CONTEXT);
        context->destroy();
        auto& stack = thread_state().contexts;
        if (!stack.empty() && stack.back() == reinterpret_cast<uint64_t>(ctx)) stack.pop_back();
    });
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
    return driver_call([&](Driver& driver) {
        thread_state().contexts.push_back(
            driver.handles.get<Context>(ctx, CUDA_ERROR_INVALID_CONTEXT)->handle);
    });
}

CUresult cuCtxPopCurrent_v2(CUcontext* pctx) {
    return driver_call([&](Driver&) {
        auto& stack = thread_state().contexts;
        require(!stack.empty(), CUDA_ERROR_INVALID_CONTEXT);
        if (pctx) *pctx = as_handle<CUcontext>(stack.back());
        stack.pop_back();
    });
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
        driver.current();
        *device = 0;
    });
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
    return driver_call([&](Driver& driver) {
        require(device != nullptr);
        driver.context(ctx);
        *device = 0;
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
        driver.context(ctx);
        *version = 3020;  // of the context functions, which have not changed since CUDA 3.2
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
        Operation marker;
        const auto queue = context->legacy_stream()->queue;
        // The legacy queue's order covers the blocking queues; this covers the others too.
        marker.after = driver.scheduler.pending(context->group);
        event->set({driver.scheduler.submit(queue, std::move(marker)), queue});
    });
}
}
