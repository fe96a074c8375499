// Entry points: initialisation, and what is set or waited for of a context.
#include "call.h"
#include "calls_wire.h"
#include "capture.h"
#include "context.h"
#include "session.h"
#include "stream_event.h"

using namespace client;

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
}
