// Entry points: events of all that a context does.
#include "context.h"
#include "graphs/capture.h"
#include "graphs/platform.h"
#include "platform.h"

using namespace front;

namespace {

// One that works, none of whose streams is captured.
std::shared_ptr<Context> context_outside_captures(CUcontext handle) {
    require_outside_callback();
    auto context = context_or_current(handle);
    platform::require_working(*context);
    if (graphs::any_capture()) graphs::refuse_context(context->id);
    return context;
}

}  // namespace

extern "C" {

CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
    return call([&] {
        const auto context = context_outside_captures(hCtx);
        platform::record_context(*context, hEvent);
        if (graphs::any_captured_event()) graphs::forget_event(graphs::platform::event(hEvent));
    });
}

// The event may be of another context, or of another device.
CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
    return call([&] {
        const auto context = context_outside_captures(hCtx);
        if (graphs::any_captured_event()) {
            graphs::require_not_captured_event(graphs::platform::event(hEvent),
                                               CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        platform::hold_context(*context, hEvent);
    });
}
}
