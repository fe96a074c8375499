// Entry points: waiting for streams, host callbacks, and the time between events.
#include "capture.h"
#include "driver.h"
#include "session.h"
#include "stream_call.h"

using namespace softgpu;
using namespace softgpu::driver;

extern "C" {

CUresult cuStreamSynchronize(CUstream hStream) {
    return stream_call(hStream, [](Context& context, Stream& stream) {
        require_not_captured(stream);
        graphs::refuse_unsafe();
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
        graphs::refuse_unsafe();
        Scheduler& scheduler = context.driver.scheduler;
        const bool busy = scheduler.last(stream.queue) || !scheduler.before_legacy(stream.queue).empty();
        return busy ? CUDA_ERROR_NOT_READY : answer_of_wait(context.status());
    });
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

CUresult cuEventElapsedTime_v2(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
    return driver_call([&](Driver& driver) {
        require(pMilliseconds != nullptr);
        const auto start = driver.handles.get<Event>(hStart), end = driver.handles.get<Event>(hEnd);
        check(start->context->status());
        const auto from = start->record().completion, to = end->record().completion;
        require(!((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) && from && to,
                CUDA_ERROR_INVALID_HANDLE);
        if (!from->done() || !to->done()) return CUDA_ERROR_NOT_READY;
        const auto nanoseconds = static_cast<int64_t>(to->nanoseconds() - from->nanoseconds());
        *pMilliseconds = static_cast<float>(static_cast<double>(nanoseconds) / 1e6);
        return CUDA_SUCCESS;
    });
}
}
