// Entry points: events of all that a context does.
#include "capture.h"

using namespace front;

namespace {

std::shared_ptr<Context> working(CUcontext handle) {
    require_outside_callback();
    auto context = context_or_current(handle);
    platform::require_working(*context);
    return context;
}

}  // namespace

extern "C" {

CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
    return call([&] {
        const auto context = working(hCtx);
        if (graphs::any_capture()) {
            require(captured_event(hEvent).context == context->id, CUDA_ERROR_INVALID_HANDLE);
            graphs::refuse_context(context->id);
        }
        platform::record_context(*context, hEvent);
        if (graphs::any_captured_event()) graphs::forget_event(graphs::platform::event(hEvent));
    });
}

// The event may be of another context, or of another device.
CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
    return call([&] {
        const auto context = working(hCtx);
        if (graphs::any_capture() || graphs::any_captured_event()) {
            const Event event = captured_event(hEvent);
            graphs::refuse_context(context->id);
            graphs::require_not_captured_event(event.key, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        platform::hold_context(*context, hEvent);
    });
}
}
