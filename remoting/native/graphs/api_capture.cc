// Entry points: stream capture.
#include "arguments.h"
#include "capture.h"

using namespace graphs;

namespace {

// CUDA hands out a list that it owns, good until the thread asks again.
const CUgraphNode* listed(const Nodes& nodes) {
    static thread_local std::vector<CUgraphNode> list;
    list.clear();
    for (const Node* node : nodes) list.push_back(handle_of<CUgraphNode>(*node));
    return list.data();
}

const CUgraphEdgeData* plain_edges(size_t count) {
    static thread_local std::vector<CUgraphEdgeData> list;
    list.assign(count, {});
    return list.data();
}

// `body(stream)` with the lock.
template <class Body>
CUresult stream_call(CUstream handle, Body&& body) noexcept {
    if (CUresult error = platform::ready()) return error;
    return guarded([&] {
        const Stream stream = platform::stream(handle);
        const Frame frame;
        body(stream);
    });
}

GraphRef new_graph() {
    const auto graph = std::make_shared<Graph>();
    table().add(graph);
    return graph;
}

}  // namespace

extern "C" {

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    return call([&] {
        require(mode != nullptr);
        *mode = exchange_mode(*mode);
    });
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
    return stream_call(hStream, [&](const Stream& stream) {
        const GraphRef graph = new_graph();
        try {
            begin_capture(stream, graph, true, mode, {});
        } catch (const Failure&) {
            graph->retire();
            throw;
        }
    });
}
CUresult cuStreamBeginCapture(CUstream hStream) {
    return cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies,
                                     const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                     CUstreamCaptureMode mode) {
    return stream_call(hStream, [&](const Stream& stream) {
        require_plain_edges(dependencyData, numDependencies);
        begin_capture(stream, find_graph(hGraph), false, mode, find_nodes(dependencies, numDependencies));
    });
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
    return stream_call(hStream, [&](const Stream& stream) {
        require(phGraph != nullptr);
        *phGraph = nullptr;
        *phGraph = handle_of<CUgraph>(*end_capture(stream));
    });
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
    return stream_call(hStream, [&](const Stream& stream) {
        require(captureStatus != nullptr);
        *captureStatus = capture_info(stream).status;
    });
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                   cuuint64_t* id_out, CUgraph* graph_out,
                                   const CUgraphNode** dependencies_out, const CUgraphEdgeData** edgeData_out,
                                   size_t* numDependencies_out) {
    return stream_call(hStream, [&](const Stream& stream) {
        require(captureStatus_out != nullptr);
        const CaptureInfo info = capture_info(stream);
        *captureStatus_out = info.status;
        if (info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
        if (id_out) *id_out = info.id;
        if (graph_out) *graph_out = handle_of<CUgraph>(*info.graph);
        if (dependencies_out) *dependencies_out = listed(info.tail);
        if (edgeData_out) *edgeData_out = plain_edges(info.tail.size());
        if (numDependencies_out) *numDependencies_out = info.tail.size();
    });
}
CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                   cuuint64_t* id_out, CUgraph* graph_out,
                                   const CUgraphNode** dependencies_out, size_t* numDependencies_out) {
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out, dependencies_out, nullptr,
                                     numDependencies_out);
}
CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                cuuint64_t* id_out) {
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, nullptr, nullptr, nullptr, nullptr);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode* dependencies,
                                              const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                              unsigned int flags) {
    return stream_call(hStream, [&](const Stream& stream) {
        require(flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES);
        require_plain_edges(dependencyData, numDependencies);
        set_capture_tail(stream, find_nodes(dependencies, numDependencies),
                         flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES);
    });
}
CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode* dependencies,
                                           size_t numDependencies, unsigned int flags) {
    return cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, nullptr, numDependencies, flags);
}
}
