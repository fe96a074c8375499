#include "capture.h"

#include <algorithm>
#include <thread>
#include <unordered_map>
#include <utility>

#include "arguments.h"

namespace graphs {

CaptureState capture_state;

class Capture {
  public:
    Capture(GraphRef graph, bool own_graph, CUstreamCaptureMode mode, uint64_t id, uint64_t origin)
        : graph(std::move(graph)), own_graph(own_graph), mode(mode), id(id), origin(origin) {}
    const GraphRef graph;
    const bool own_graph;  // made by the capture, and not one that the program had
    const CUstreamCaptureMode mode;
    const uint64_t id;
    const uint64_t origin;  // key of the stream that it began on
    const std::thread::id thread = std::this_thread::get_id();
    bool invalid = false;  // something happened that a graph cannot hold
    bool ended = false;
    std::vector<NodeRef> left{};  // the last nodes of streams that were destroyed
};

namespace {

using CaptureRef = std::shared_ptr<Capture>;

// Where a stream or event stands in a capture: what comes next waits for these.
struct Place {
    CaptureRef capture{};
    std::vector<NodeRef> tail{};
    Stream stream{};
};

struct Places {
    std::unordered_map<uint64_t, Place> streams, events;
    uint64_t last_id = 0;

    Place* of(const Stream& stream) {
        auto found = streams.find(stream.key);
        return found == streams.end() ? nullptr : &found->second;
    }
    void count() const {
        capture_state.streams.store(static_cast<unsigned>(streams.size()), std::memory_order_release);
        capture_state.events.store(static_cast<unsigned>(events.size()), std::memory_order_release);
    }
};

Places& places() {
    static auto* all = new Places;
    return *all;
}

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

[[noreturn]] void invalidate(Capture& capture, CUresult why) {
    capture.invalid = true;
    refuse(why);
}

void require_valid(const Capture& capture) {
    require(!capture.invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

// The legacy default stream would wait for a captured stream, which does nothing.
void check_legacy(const Stream& stream) {
    if (!stream.legacy) return;
    for (const auto& [key, place] : places().streams) {
        if (place.stream.context == stream.context && place.stream.blocking) {
            invalidate(*place.capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        }
    }
}

std::vector<NodeRef> references(const Nodes& nodes) {
    std::vector<NodeRef> kept;
    for (const Node* node : nodes) kept.push_back(table().get<Node>(node->handle));
    return kept;
}

// A node may have been removed from the graph meanwhile; each once.
Nodes live(const std::vector<NodeRef>& tail) {
    Nodes nodes;
    for (const NodeRef& node : tail) {
        if (node->handle != 0 && std::find(nodes.begin(), nodes.end(), node.get()) == nodes.end())
            nodes.push_back(node.get());
    }
    return nodes;
}

// The stream itself is not kept: that it goes must be noticed.
void enter(Stream stream, CaptureRef capture, std::vector<NodeRef> tail) {
    stream.object = nullptr;
    places().streams[stream.key] = {std::move(capture), std::move(tail), stream};
    places().count();
}

void add(Place& place, Params params) {
    place.tail = {add_node(*place.capture->graph, std::move(params), live(place.tail))};
}

void drop(uint64_t key) {
    auto found = places().streams.find(key);
    if (found == places().streams.end()) return;
    Frame::discard(found->second.capture);
    places().streams.erase(found);
    places().count();
}

}  // namespace

bool captured(const Stream& stream, const std::function<Params()>& make) {
    const Frame frame;
    Place* place = places().of(stream);
    if (!place) {
        check_legacy(stream);
        return false;
    }
    require_valid(*place->capture);
    try {
        add(*place, make());
    } catch (const Failure& failure) {
        // Wrong arguments leave the capture as it is; what a graph cannot hold ends it.
        if (failure.code == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED || failure.code == CUDA_ERROR_NOT_SUPPORTED)
            place->capture->invalid = true;
        throw;
    }
    return true;
}

bool record_captured(const Stream& stream, uint64_t event, CUevent handle, bool external) {
    const Frame frame;
    Place* place = places().of(stream);
    if (!place) {
        check_legacy(stream);
        require(!external);
        if (places().events.erase(event)) places().count();
        return false;
    }
    require_valid(*place->capture);
    if (external) {
        add(*place, RecordParams{handle});
    } else {
        places().events[event] = *place;
        places().count();
    }
    return true;
}

bool wait_captured(const Stream& stream, uint64_t event, CUevent handle, bool external) {
    const Frame frame;
    Place* place = places().of(stream);
    if (external) {
        require(place != nullptr);
        require_valid(*place->capture);
        add(*place, WaitParams{handle});
        return true;
    }
    auto found = places().events.find(event);
    const bool live_event = found != places().events.end() && !found->second.capture->ended;
    if (place) require_valid(*place->capture);
    if (!live_event) {
        if (place) invalidate(*place->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        check_legacy(stream);
        return false;
    }
    Place& from = found->second;
    require_valid(*from.capture);
    if (!place) {
        // The legacy stream orders itself with others, which a graph cannot.
        if (stream.legacy) invalidate(*from.capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        enter(stream, from.capture, from.tail);
        return true;
    }
    if (place->capture != from.capture) {
        from.capture->invalid = true;
        invalidate(*place->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    for (const NodeRef& node : from.tail) {
        if (std::find(place->tail.begin(), place->tail.end(), node) == place->tail.end())
            place->tail.push_back(node);
    }
    return true;
}

void refuse_captured(const Stream& stream) {
    const Frame frame;
    if (Place* place = places().of(stream)) {
        invalidate(*place->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    check_legacy(stream);
}

void refuse_unsafe() {
    if (!any_capture()) return;
    const Frame frame;
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return;
    const auto me = std::this_thread::get_id();
    bool forbidden = false;
    for (auto& [key, place] : places().streams) {
        Capture& capture = *place.capture;
        const bool mine = capture.thread == me && capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        const bool global =
            thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (!mine && !global) continue;
        capture.invalid = true;
        forbidden = true;
    }
    require(!forbidden, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void refuse_context(uint64_t context) {
    const Frame frame;
    bool captured = false;
    for (auto& [key, place] : places().streams) {
        if (place.stream.context != context) continue;
        place.capture->invalid = true;
        captured = true;
    }
    require(!captured, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void require_not_captured_event(uint64_t event, CUresult why) {
    const Frame frame;
    auto found = places().events.find(event);
    if (found == places().events.end() || found->second.capture->ended) return;
    invalidate(*found->second.capture, why);
}

bool is_captured(const Stream& stream) {
    const Frame frame;
    return places().of(stream) != nullptr;
}

void forget_stream(uint64_t key) noexcept {
    if (!any_capture()) return;
    const Frame frame;
    if (auto found = places().streams.find(key); found != places().streams.end()) {
        Capture& capture = *found->second.capture;
        if (capture.origin == key) capture.invalid = capture.ended = true;
        // A branch may go once it has come back: at the end it is looked at as if it were there.
        auto& tail = found->second.tail;
        capture.left.insert(capture.left.end(), tail.begin(), tail.end());
        drop(key);
    }
}

void forget_event(uint64_t key) noexcept {
    if (!any_captured_event()) return;
    const Frame frame;
    auto found = places().events.find(key);
    if (found == places().events.end()) return;
    Frame::discard(found->second.capture);
    places().events.erase(found);
    places().count();
}

void forget_captures() {
    std::unordered_map<uint64_t, Place> streams, events;  // go after the lock
    const Frame frame;
    streams.swap(places().streams);
    events.swap(places().events);
    places().count();
}

void begin_capture(const Stream& stream, GraphRef graph, bool own_graph, CUstreamCaptureMode mode,
                   const Nodes& after) {
    require(mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
    require(!stream.legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    require(!places().of(stream), CUDA_ERROR_ILLEGAL_STATE);
    for (const Node* node : after) require(node->graph == graph.get());
    auto capture =
        std::make_shared<Capture>(std::move(graph), own_graph, mode, ++places().last_id, stream.key);
    enter(stream, std::move(capture), references(after));
}

GraphRef end_capture(const Stream& stream) {
    Place* place = places().of(stream);
    require(place != nullptr, CUDA_ERROR_ILLEGAL_STATE);
    const CaptureRef capture = place->capture;
    require(capture->origin == stream.key, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    require(capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->thread == std::this_thread::get_id(),
            CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    const Nodes last = live(place->tail);
    // Another stream's last nodes must lead to the origin's: else its work would end after the graph.
    bool joined = true;
    auto look = [&](const std::vector<NodeRef>& tail) {
        for (const Node* node : live(tail)) {
            if (node->after.empty() && std::find(last.begin(), last.end(), node) == last.end())
                joined = false;
        }
    };
    look(capture->left);
    std::vector<uint64_t> leaving;
    for (const auto& [key, other] : places().streams) {
        if (other.capture != capture) continue;
        leaving.push_back(key);
        look(other.tail);
    }
    for (const uint64_t key : leaving) drop(key);
    std::erase_if(places().events, [&](const auto& entry) { return entry.second.capture == capture; });
    places().count();
    capture->ended = true;
    if (capture->invalid || !joined) {
        if (capture->own_graph) {
            capture->graph->retire();
            Frame::discard(capture->graph);
        }
        refuse(capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    }
    return capture->graph;
}

CaptureInfo capture_info(const Stream& stream) {
    const Place* place = places().of(stream);
    if (!place) return {};
    if (place->capture->invalid) return {.status = CU_STREAM_CAPTURE_STATUS_INVALIDATED};
    return {CU_STREAM_CAPTURE_STATUS_ACTIVE, place->capture->id, place->capture->graph, live(place->tail)};
}

void set_capture_tail(const Stream& stream, const Nodes& nodes, bool replace) {
    Place* place = places().of(stream);
    require(place != nullptr, CUDA_ERROR_ILLEGAL_STATE);
    require_valid(*place->capture);
    for (const Node* node : nodes) require(node->graph == place->capture->graph.get());
    if (replace) place->tail.clear();
    for (NodeRef& node : references(nodes)) place->tail.push_back(std::move(node));
}

CUstreamCaptureMode exchange_mode(CUstreamCaptureMode mode) {
    require(mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
    return std::exchange(thread_mode, mode);
}

}  // namespace graphs
