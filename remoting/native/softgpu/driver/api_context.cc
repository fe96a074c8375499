// Entry points: initialisation, and what is set or waited for of a context.
#include "capture.h"
#include "driver.h"
#include "session.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

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
