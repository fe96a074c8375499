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

CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
    return context_event(hCtx, hEvent, false);
}

CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
    return context_event(hCtx, hEvent, true);
}
}
