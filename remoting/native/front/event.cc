// Entry points: events. Recording and waiting ask nothing that the library does not look up itself, unless
// there is a capture.
#include "capture.h"
#include "placement.h"

using namespace front;

namespace {

bool concerns_captures(bool external) {
    return external || graphs::any_capture() || graphs::any_captured_event();
}

// Before asking about an event, or waiting for it.
void refuse_in_capture(CUevent handle) {
    if (!graphs::any_capture() && !graphs::any_captured_event()) return;
    graphs::require_not_captured_event(captured_event(handle).key);
    graphs::refuse_unsafe();
}

}  // namespace

extern "C" {

CUresult cuEventCreate(CUevent* phEvent, unsigned int Flags) {
    return call([&] {
        platform::require_working_context();
        constexpr unsigned kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
        require(phEvent && (Flags & ~kKnown) == 0);
        require_done(!(Flags & CU_EVENT_INTERPROCESS), "an event that other processes may open");
        *phEvent = platform::make_event(Flags);
    });
}

CUresult cuEventDestroy_v2(CUevent hEvent) {
    return permitted_call([&] { platform::end_event(hEvent); });
}
CUresult cuEventDestroy(CUevent hEvent) {
    return cuEventDestroy_v2(hEvent);
}

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
    return cuda::guarded([&] {
        require((flags & ~unsigned{CU_EVENT_RECORD_EXTERNAL}) == 0);
        const bool external = flags & CU_EVENT_RECORD_EXTERNAL;
        if (concerns_captures(external)) {
            const graphs::Stream stream = captured_stream(hStream);
            const Event event = platform::event(hEvent);
            require(event.context == stream.context, CUDA_ERROR_INVALID_HANDLE);
            if (graphs::record_captured(stream, event.key, hEvent, external)) return;
        }
        platform::record(hEvent, hStream);
    });
}
CUresult cuEventRecord(CUevent hEvent, CUstream hStream) {
    return cuEventRecordWithFlags(hEvent, hStream, CU_EVENT_RECORD_DEFAULT);
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
    return cuda::guarded([&] {
        require((Flags & ~unsigned{CU_EVENT_WAIT_EXTERNAL}) == 0);
        const bool external = Flags & CU_EVENT_WAIT_EXTERNAL;
        if (concerns_captures(external)) {
            const graphs::Stream stream = captured_stream(hStream);
            if (graphs::wait_captured(stream, platform::event(hEvent).key, hEvent, external)) return;
        }
        platform::wait_in_stream(hStream, hEvent);
    });
}

CUresult cuEventQuery(CUevent hEvent) {
    return cuda::guarded([&] {
        refuse_in_capture(hEvent);
        return platform::query(hEvent);
    });
}
CUresult cuEventSynchronize(CUevent hEvent) {
    return cuda::guarded([&] {
        refuse_in_capture(hEvent);
        return platform::wait(hEvent);
    });
}

CUresult cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
    return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}
}
