// Entry points: streams and host callbacks.
#include "capture.h"
#include "driver.h"
#include "session.h"
#include "stream_call.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

CUresult create(CUstream* phStream, unsigned flags, int priority) {
    return context_call([&](Context& context) {
        require(phStream != nullptr && (flags & ~CU_STREAM_NON_BLOCKING) == 0);
        const int clamped = priority > 0 ? 0 : priority < kGreatestPriority ? kGreatestPriority : priority;
        const auto stream = context.new_stream(flags, clamped);
        context.driver.handles.add(stream);
        context.own(stream->handle);
        *phStream = as_handle<CUstream>(stream->handle);
    });
}

}  // namespace

extern "C" {

CUresult cuStreamCreate(CUstream* phStream, unsigned int Flags) {
    return create(phStream, Flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
    return create(phStream, flags, priority);
}

// Returns at once; what was submitted still runs.
CUresult cuStreamDestroy_v2(CUstream hStream) {
    return driver_call([&](Driver& driver) {
        const auto stream = driver.handles.get<Stream>(hStream);
        require(driver.handles.remove(stream->handle), CUDA_ERROR_INVALID_HANDLE);
        graphs::forget_stream(as_captured(*stream).key);
        stream->context->disown(stream->handle);
    });
}

CUresult cuStreamDestroy(CUstream hStream) {
    return cuStreamDestroy_v2(hStream);
}

CUresult cuStreamSynchronize(CUstream hStream) {
    return stream_call(hStream, [](Context& context, Stream& stream) {
        require_not_captured(stream);
        require_safe_in_captures();
        Scheduler& scheduler = context.driver.scheduler;
        const auto others = scheduler.before_legacy(stream.queue);
        scheduler.wait(scheduler.last(stream.queue), stream.queue);
        for (const CompletionRef& other : others) scheduler.wait(other, nullptr);
        return answer_of_wait(context.status());
    });
}

CUresult cuStreamQuery(CUstream hStream) {
    return stream_call(hStream, [](Context& context, Stream& stream) {
        require_not_captured(stream);
        require_safe_in_captures();
        Scheduler& scheduler = context.driver.scheduler;
        const bool busy = scheduler.last(stream.queue) || !scheduler.before_legacy(stream.queue).empty();
        return busy ? CUDA_ERROR_NOT_READY : answer_of_wait(context.status());
    });
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
    return stream_call(hStream, [&](Context& context, Stream& stream) {
        require((Flags & ~CU_EVENT_WAIT_EXTERNAL) == 0);
        const auto event = context.driver.handles.get<Event>(hEvent);
        const bool external = Flags & CU_EVENT_WAIT_EXTERNAL;
        const bool concerned = external || graphs::any_capture() || graphs::any_captured_event();
        if (concerned && graphs::wait_captured(as_captured(stream), key_of(*event), hEvent, external)) return;
        const auto record = event->record();
        if (!record.completion || record.completion->done()) return;
        context.driver.scheduler.submit(stream.queue, {.after = {record.completion}});
    });
}

CUresult cuStreamGetPriority(CUstream hStream, int* priority) {
    return stream_call(hStream, [&](Context&, Stream& stream) {
        require(priority != nullptr);
        *priority = stream.queue->priority;
    });
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
    return stream_call(hStream, [&](Context&, Stream& stream) {
        require(flags != nullptr);
        *flags = stream.flags;
    });
}

CUresult cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
    return stream_call(hStream, [&](Context&, Stream& stream) {
        require(streamId != nullptr);
        *streamId = stream.id;
    });
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice* device) {
    return stream_call(hStream, [&](Context& context, Stream&) {
        require(device != nullptr);
        *device = context.device;
    });
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
    return stream_call(hStream, [&](Context& context, Stream&) {
        require(pctx != nullptr);
        *pctx = as_handle<CUcontext>(context.handle);
    });
}

CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx) {
    if (pGreenCtx) *pGreenCtx = nullptr;
    return cuStreamGetCtx(hStream, pCtx);
}

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData) {
    return stream_call(hStream, [&](Context& context, Stream& stream) {
        require(fn != nullptr);
        if (captured(stream, [&] { return graphs::HostParams{fn, userData}; })) return;
        auto call = [fn, userData] {
            fn(userData);
            return CUDA_SUCCESS;
        };
        context.driver.scheduler.submit(stream.queue, {.body = call, .calls_program = true});
    });
}

// How the calling thread waits for work is the scheduler's business.
CUresult cuLaunchHostFunc_v2(CUstream hStream, CUhostFn fn, void* userData, unsigned int syncMode) {
    if (syncMode != CU_HOST_TASK_BLOCKING && syncMode != CU_HOST_TASK_SPINWAIT)
        return CUDA_ERROR_INVALID_VALUE;
    return cuLaunchHostFunc(hStream, fn, userData);
}

// Unlike a host function it is called also when the context has failed, and is told.
CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData,
                             unsigned int flags) {
    return stream_call(hStream, [&](Context& context, Stream& stream) {
        require(callback != nullptr && flags == 0);
        require_not_captured(stream);
        auto call = [callback, hStream, userData, group = context.group] {
            callback(hStream, group->status(), userData);
            return CUDA_SUCCESS;
        };
        context.driver.scheduler.submit(stream.queue, {.body = call, .always = true, .calls_program = true});
    });
}
}
