// Entry points: initialisation, and what is set or waited for of a context.
#include "call.h"
#include "calls_wire.h"
#include "capture.h"
#include "context.h"
#include "session.h"
#include "stream_event.h"

using namespace client;

namespace {

CUresult context_event(CUcontext handle, CUevent event, bool wait) {
    Context* context = nullptr;
    if (CUresult error = find_context(handle, context)) return error;
    // Posted, so it must be refused here what the server's driver lacks: CUDA has these two since 12.5.
    static bool told;
    if (Session::get().driver_version() < 12050) {
        return gk_unsupported_once(
            "an event of a whole context, on a GPU server whose driver is older than CUDA 12.5,", &told);
    }
    Call call;
    if (CUresult error = call.begin_on(context->device)) return error;
    wire::ContextEvent message{0, wait, 0};
    if (!call.event(event, message.event)) return CUDA_ERROR_INVALID_HANDLE;
    Event* known = events().find(message.event);
    if (!wait) {
        if (!known || known->context != context->id) return CUDA_ERROR_INVALID_HANDLE;
        __atomic_fetch_add(&known->recorded, 1, __ATOMIC_SEQ_CST);
    }
    return call.post(wire::kOpContextEvent, 0, &message, sizeof message);
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned int Flags) {
    if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
    return Session::get().open();
}

// The other contexts of the device are waited for too: on the server they are one.
CUresult cuCtxSynchronize(void) {
    Call call;
    if (CUresult error = call.begin()) return error;
    if (CUresult error = refuse_captured_context(current_context_id())) return error;
    return call.synchronize(wire::kOp_cuCtxSynchronize, 0, nullptr, 0, nullptr, 0);
}

CUresult cuCtxSynchronize_v2(CUcontext ctx) {
    Context* context = nullptr;
    if (CUresult error = find_context(ctx, context)) return error;
    const AsCurrent current(*context);
    return cuCtxSynchronize();
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* pconfig) {
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    if (!pconfig) return CUDA_ERROR_INVALID_VALUE;
    *pconfig = static_cast<CUfunc_cache>(context->cache_config.load());
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
    Call call;
    if (CUresult error = call.begin()) return error;
    if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    current_context()->cache_config = config;
    const wire::cuCtxSetCacheConfig_message message{static_cast<uint32_t>(config)};
    return call.post(wire::kOp_cuCtxSetCacheConfig, 0, &message, sizeof message);
}

CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
    return context_event(hCtx, hEvent, false);
}

CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
    return context_event(hCtx, hEvent, true);
}

// A hint about banks.
CUresult cuCtxGetSharedMemConfig(CUsharedconfig* pConfig) {
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    if (!pConfig) return CUDA_ERROR_INVALID_VALUE;
    *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    const bool known = config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE &&
                       config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE;
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// The cache is the whole GPU's, whose other slices are not to be disturbed.
CUresult cuCtxResetPersistingL2Cache(void) {
    Context* context = nullptr;
    return find_context(nullptr, context);
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam* pExecAffinity, CUexecAffinityType type) {
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    const bool known = pExecAffinity && type == CU_EXEC_AFFINITY_TYPE_SM_COUNT;
    return known ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : CUDA_ERROR_INVALID_VALUE;
}

// A slice reaches no other slice's memory; copies between them work (cuMemcpyPeer).
CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    const Context* peer = context_of(peerContext);
    if (!peer) return CUDA_ERROR_INVALID_CONTEXT;
    if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
    return peer->device == context->device ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext) {
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    return context_of(peerContext) ? CUDA_ERROR_PEER_ACCESS_NOT_ENABLED : CUDA_ERROR_INVALID_CONTEXT;
}
}
