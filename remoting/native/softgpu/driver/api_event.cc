// Entry points: events.
#include "capture.h"
#include "driver.h"
#include "session.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

constexpr unsigned kEventFlags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

template <class Body>
CUresult event_call(CUevent handle, Body&& body) noexcept {
    return driver_call([&](Driver& driver) {
        require(!Scheduler::in_callback(), CUDA_ERROR_NOT_PERMITTED);
        const auto event = driver.handles.get<Event>(handle);
        check(event->context->status());
        return static_cast<CUresult>(body(*event));
    });
}

}  // namespace

extern "C" {

CUresult cuEventCreate(CUevent* phEvent, unsigned int Flags) {
    return context_call([&](Context& context) {
        require(phEvent != nullptr && (Flags & ~kEventFlags) == 0);
        require(!(Flags & CU_EVENT_INTERPROCESS), CUDA_ERROR_NOT_SUPPORTED);
        const auto event = std::make_shared<Event>(context.shared_from_this(), Flags);
        context.driver.handles.add(event);
        context.own(event->handle);
        *phEvent = as_handle<CUevent>(event->handle);
    });
}

CUresult cuEventDestroy_v2(CUevent hEvent) {
    return driver_call([&](Driver& driver) {
        const auto event = driver.handles.get<Event>(hEvent);
        require(driver.handles.remove(event->handle), CUDA_ERROR_INVALID_HANDLE);
        event->context->disown(event->handle);
    });
}

CUresult cuEventDestroy(CUevent hEvent) {
    return cuEventDestroy_v2(hEvent);
}

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
    if (flags & ~CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
    const bool external = flags & CU_EVENT_RECORD_EXTERNAL;
    return event_call(hEvent, [&](Event& event) {
        const auto stream = event.context->stream(hStream);
        require(stream->context == event.context, CUDA_ERROR_INVALID_HANDLE);
        const bool concerned = external || graphs::any_capture() || graphs::any_captured_event();
        if (concerned && graphs::record_captured(as_captured(*stream), key_of(event), hEvent, external))
            return CUDA_SUCCESS;
        event.set({event.context->driver.scheduler.submit(stream->queue, {}), stream->queue});
        return CUDA_SUCCESS;
    });
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream) {
    return cuEventRecordWithFlags(hEvent, hStream, 0);
}

CUresult cuEventQuery(CUevent hEvent) {
    return event_call(hEvent, [](Event& event) {
        require_not_captured(event);
        require_safe_in_captures();
        const auto completion = event.record().completion;
        if (completion && !completion->done()) return CUDA_ERROR_NOT_READY;
        return answer_of_wait(event.context->status());
    });
}

CUresult cuEventSynchronize(CUevent hEvent) {
    return event_call(hEvent, [](Event& event) {
        require_not_captured(event);
        require_safe_in_captures();
        const auto record = event.record();
        event.context->driver.scheduler.wait(record.completion, record.queue);
        return answer_of_wait(event.context->status());
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

CUresult cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
    return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}
}
