// Stream capture: while a stream is captured, what a program submits to it becomes a node of a graph instead
// of work. A second stream joins when it waits for an event that was recorded in the first, and must come
// back the same way before the capture ends.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "frame.h"

namespace graphs {

class Capture;

struct CaptureState {
    std::atomic<unsigned> streams{0};  // captured now
    std::atomic<unsigned> events{0};   // last recorded in a captured stream
};
extern CaptureState capture_state;

// While this is false, no call has to do with captures, and none of what follows need be called.
inline bool any_capture() {
    return capture_state.streams.load(std::memory_order_acquire) != 0;
}
inline bool any_captured_event() {
    return capture_state.events.load(std::memory_order_acquire) != 0;
}

// The hooks of the calls that programs make. Each takes the lock itself, and throws what CUDA answers.

// Work for `stream`: true when it became a node of what `make` gives; false when it is to be done.
bool captured(const Stream& stream, const std::function<Params()>& make);
bool record_captured(const Stream& stream, uint64_t event, CUevent handle, bool external);
bool wait_captured(const Stream& stream, uint64_t event, CUevent handle, bool external);
// What cannot be a node: throws STREAM_CAPTURE_UNSUPPORTED, and the capture is invalid, when the stream is
// captured.
void refuse_captured(const Stream& stream);
// A call that CUDA calls potentially unsafe (allocating, waiting, asking): whether a capture forbids it
// depends on its mode and on the thread's. Without one it takes no lock.
void refuse_unsafe();
// What concerns all streams of a context: throws STREAM_CAPTURE_UNSUPPORTED, and the captures are invalid,
// when some are captured.
void refuse_context(uint64_t context);
// Asking about an event, or waiting for it: throws `why`, and the capture is invalid, when the event is of
// one.
void require_not_captured_event(uint64_t event, CUresult why = CUDA_ERROR_CAPTURED_EVENT);
bool is_captured(const Stream& stream);

// The thing has gone, or the event was recorded in a stream that is not captured.
void forget_stream(uint64_t key) noexcept;
void forget_event(uint64_t key) noexcept;
void forget_captures();

// For the entry points, which hold the lock.
void begin_capture(const Stream& stream, GraphRef graph, bool own_graph, CUstreamCaptureMode mode,
                   const Nodes& after);
GraphRef end_capture(const Stream& stream);
struct CaptureInfo {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    uint64_t id = 0;
    GraphRef graph{};
    Nodes tail{};
};
CaptureInfo capture_info(const Stream& stream);
void set_capture_tail(const Stream& stream, const Nodes& nodes, bool replace);
CUstreamCaptureMode exchange_mode(CUstreamCaptureMode mode);

}  // namespace graphs
