#include "capture.h"

#include <algorithm>
#include <utility>

#include "driver.h"

namespace softgpu::driver {
namespace {

// Of every stream's and event's place, and of what follows. What a place held is let go of after the mutex:
// it may be the last to hold a graph, whose nodes hold functions, modules, streams.
std::mutex mutex;
std::vector<Stream*>& captured = *new std::vector<Stream*>;  // in a capture; a stream leaves before it dies
std::atomic<unsigned> count{0};  // of `captured`, so that who does not capture takes no lock
std::atomic<uint64_t> next_id{1};

bool none() {
    return count.load(std::memory_order_acquire) == 0;
}

void join(Stream& stream, std::shared_ptr<Capture> capture, Nodes tail) {
    stream.place = {std::move(capture), std::move(tail)};
    captured.push_back(&stream);
    count.store(captured.size(), std::memory_order_release);
}

CapturePlace leave(Stream& stream) {
    std::erase(captured, &stream);
    count.store(captured.size(), std::memory_order_release);
    return std::exchange(stream.place, {});
}

[[noreturn]] void invalidate(Capture& capture, CUresult why) {
    capture.invalid = true;
    refuse(why);
}

// The legacy default stream would wait for a captured stream, which does nothing.
void check_legacy(const Stream& stream) {
    if (stream.handle != 0 || stream.queue != stream.context->legacy_stream()->queue) return;
    for (const Stream* other : captured) {
        if (other->context == stream.context && other->queue->blocking) {
            invalidate(*other->place.capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        }
    }
}

}  // namespace

Stream::~Stream() {
    if (none()) return;
    CapturePlace old;
    const std::lock_guard lock(mutex);
    if (place.capture) {
        place.capture->invalid = true;
        old = leave(*this);
    }
}

CompletionRef enqueue(Stream& stream, CUgraphNodeType type, Operation operation, bool soon) {
    if (!none()) {
        const std::lock_guard lock(mutex);
        if (Capture* capture = stream.place.capture.get()) {
            require(!capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
            if (soon) invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
            stream.place.tail = {capture->graph->add(
                type, {{.body = std::move(operation.body), .calls_program = operation.calls_program}},
                stream.place.tail)};
            return nullptr;
        }
        check_legacy(stream);
    }
    return stream.context->driver.scheduler.submit(stream.queue, std::move(operation), soon);
}

bool is_captured(const Stream& stream) {
    if (none()) return false;
    const std::lock_guard lock(mutex);
    return stream.place.capture != nullptr;
}

void require_not_captured(Stream& stream) {
    if (none()) return;
    const std::lock_guard lock(mutex);
    if (stream.place.capture) invalidate(*stream.place.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    check_legacy(stream);
}

void begin_capture(Stream& stream, std::shared_ptr<Graph> graph, CUstreamCaptureMode mode,
                   const Nodes& after) {
    require(mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
    const std::lock_guard lock(mutex);
    // The legacy stream orders itself with others, which a graph cannot.
    require(stream.handle != 0 || stream.queue != stream.context->legacy_stream()->queue,
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    require(!stream.place.capture, CUDA_ERROR_ILLEGAL_STATE);
    join(stream, std::make_shared<Capture>(std::move(graph), mode, next_id++, stream), after);
}

std::shared_ptr<Graph> end_capture(Stream& stream) {
    std::vector<CapturePlace> old;
    std::shared_ptr<Capture> capture;
    const std::lock_guard lock(mutex);
    capture = stream.place.capture;
    require(capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
    require(capture->origin == &stream, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    const Nodes last = stream.place.tail;
    bool joined = true;
    for (Stream* other : std::vector<Stream*>(captured)) {
        if (other->place.capture != capture) continue;
        // Another stream's last nodes must lead to the origin's: else its work would end after the graph.
        for (const NodeRef& node : other->place.tail) {
            const bool is_last = std::find(last.begin(), last.end(), node) != last.end();
            if (!is_last && capture->graph->after(node).empty()) joined = false;
        }
        old.push_back(leave(*other));
    }
    require(!capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    require(joined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    return capture->graph;
}

void set_capture_tail(Stream& stream, const Nodes& nodes, bool replace) {
    const std::lock_guard lock(mutex);
    require(stream.place.capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
    for (const NodeRef& node : nodes) require(node->graph.lock() == stream.place.capture->graph);
    Nodes& tail = stream.place.tail;
    if (replace) tail.clear();
    tail.insert(tail.end(), nodes.begin(), nodes.end());
}

CaptureInfo capture_info(const Stream& stream) {
    if (none()) return {};
    const std::lock_guard lock(mutex);
    const auto& capture = stream.place.capture;
    if (!capture) return {};
    if (capture->invalid) return {.status = CU_STREAM_CAPTURE_STATUS_INVALIDATED};
    return {CU_STREAM_CAPTURE_STATUS_ACTIVE, capture->id, capture->graph, stream.place.tail};
}

bool record_captured(Stream& stream, Event& event) {
    if (none()) return false;
    CapturePlace old;
    const std::lock_guard lock(mutex);
    old = std::exchange(event.place, stream.place);
    if (!stream.place.capture) check_legacy(stream);
    return stream.place.capture != nullptr;
}

bool wait_captured(Stream& stream, const Event& event) {
    if (none()) return false;
    const std::lock_guard lock(mutex);
    const auto capture = event.place.capture;
    const bool live = capture && std::any_of(captured.begin(), captured.end(), [&](const Stream* other) {
                          return other->place.capture == capture;
                      });
    if (!live) {
        if (stream.place.capture) invalidate(*stream.place.capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        return false;
    }
    if (!stream.place.capture) {
        join(stream, capture, event.place.tail);
        return true;
    }
    if (stream.place.capture != capture) invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    stream.place.tail.insert(stream.place.tail.end(), event.place.tail.begin(), event.place.tail.end());
    return true;
}

bool is_captured(const Event& event) {
    if (none()) return false;
    const std::lock_guard lock(mutex);
    const auto& capture = event.place.capture;
    return capture && std::any_of(captured.begin(), captured.end(),
                                  [&](const Stream* other) { return other->place.capture == capture; });
}

}  // namespace softgpu::driver
