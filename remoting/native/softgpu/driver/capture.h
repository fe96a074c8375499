// Stream capture: while a stream is captured, what is submitted to it becomes a node of a graph instead of
// work. A second stream joins when it waits for an event that was recorded in the first.
#pragma once

#include "graph.h"

namespace softgpu::driver {

class Capture {
  public:
    Capture(std::shared_ptr<Graph> graph, CUstreamCaptureMode mode, uint64_t id, const Stream& origin)
        : graph(std::move(graph)), mode(mode), id(id), origin(&origin) {}
    const std::shared_ptr<Graph> graph;
    const CUstreamCaptureMode mode;
    const uint64_t id;
    const Stream* const origin;  // only compared with
    bool invalid = false;        // something happened that a graph cannot hold; under the captures' mutex
};

// Submits the operation, or adds it to the capture of the stream, in which case there is no completion.
// `soon` as in Scheduler::submit; who wants to wait cannot be captured, which ends the capture as CUDA does.
CompletionRef enqueue(Stream& stream, CUgraphNodeType type, Operation operation, bool soon = false);

bool is_captured(const Stream& stream);
// Throws STREAM_CAPTURE_UNSUPPORTED, and makes the capture invalid, when the stream is captured.
void require_not_captured(Stream& stream);

void begin_capture(Stream& stream, std::shared_ptr<Graph> graph, CUstreamCaptureMode mode,
                   const Nodes& after);
std::shared_ptr<Graph> end_capture(Stream& stream);
void set_capture_tail(Stream& stream, const Nodes& nodes, bool replace);

struct CaptureInfo {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    uint64_t id = 0;
    std::shared_ptr<Graph> graph{};
    Nodes tail{};
};
CaptureInfo capture_info(const Stream& stream);

// Both return false where the stream is not captured, and (the second) the event was not recorded in a
// capture.
bool record_captured(Stream& stream, Event& event);
bool wait_captured(Stream& stream, const Event& event);
bool is_captured(const Event& event);

}  // namespace softgpu::driver
