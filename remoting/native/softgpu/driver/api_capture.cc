// Entry points: stream capture.
#include "capture.h"
#include "graph_arguments.h"
#include "stream_call.h"
#include "thread_state.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

// CUDA hands out a list that it owns, good until the thread asks again.
const CUgraphNode* listed(const Nodes& nodes) {
    static thread_local std::vector<CUgraphNode> list;
    list.clear();
    for (const NodeRef& node : nodes) list.push_back(as_handle<CUgraphNode>(node->handle));
    return list.data();
}

}  // namespace

extern "C" {

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    return driver_call([&](Driver&) {
        require(mode != nullptr && *mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
        auto& current = thread_state().capture_mode;
        const auto old = static_cast<CUstreamCaptureMode>(current);
        current = *mode;
        *mode = old;
    });
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
    return stream_call(hStream, [&](Context& context, Stream& stream) {
        begin_capture(stream, new_graph(context.driver), mode, {});
    });
}

CUresult cuStreamBeginCapture(CUstream hStream) {
    return cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies,
                                     const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                     CUstreamCaptureMode mode) {
    return stream_call(hStream, [&](Context& context, Stream& stream) {
        require_plain_edges(dependencyData, numDependencies);
        begin_capture(stream, find_graph(context.driver, hGraph), mode,
                      find_nodes(context.driver, dependencies, numDependencies));
    });
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
    return stream_call(hStream, [&](Context& context, Stream& stream) {
        require(phGraph != nullptr);
        *phGraph = nullptr;
        const auto graph = end_capture(stream);
        if (graph->handle == 0) context.driver.handles.add(graph);
        *phGraph = as_handle<CUgraph>(graph->handle);
    });
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
    return stream_call(hStream, [&](Context&, Stream& stream) {
        require(captureStatus != nullptr);
        *captureStatus = capture_info(stream).status;
    });
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                   cuuint64_t* id_out, CUgraph* graph_out,
                                   const CUgraphNode** dependencies_out, const CUgraphEdgeData** edgeData_out,
                                   size_t* numDependencies_out) {
    return stream_call(hStream, [&](Context& context, Stream& stream) {
        require(captureStatus_out != nullptr);
        const CaptureInfo info = capture_info(stream);
        *captureStatus_out = info.status;
        if (id_out) *id_out = info.id;
        if (graph_out) {
            if (info.graph && info.graph->handle == 0) context.driver.handles.add(info.graph);
            *graph_out = info.graph ? as_handle<CUgraph>(info.graph->handle) : nullptr;
        }
        if (dependencies_out) *dependencies_out = listed(info.tail);
        if (edgeData_out) *edgeData_out = nullptr;
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
    return stream_call(hStream, [&](Context& context, Stream& stream) {
        require(flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES);
        require_plain_edges(dependencyData, numDependencies);
        set_capture_tail(stream, find_nodes(context.driver, dependencies, numDependencies),
                         flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES);
    });
}

CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode* dependencies,
                                           size_t numDependencies, unsigned int flags) {
    return cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, nullptr, numDependencies, flags);
}
}
