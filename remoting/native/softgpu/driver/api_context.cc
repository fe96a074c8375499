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
}
