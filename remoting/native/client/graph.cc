// Capturing a stream into a graph, and launching it: a whole graph is one message. Nodes cannot be looked at
// or made one by one.
#include "graph.h"

#include <atomic>
#include <map>
#include <mutex>

#include "call.h"
#include "calls_wire.h"
#include "stream_event.h"
#include "user_object.h"

namespace client {
namespace {

// Captures under way in this process: the stream that each began on, and the graph that it will be. Without
// one no stream is captured, and nobody need be asked.
struct Captures {
    std::mutex mutex;
    std::map<uint64_t, uint64_t> graph_of;
    std::atomic<size_t> count{0};

    void add(uint64_t stream, uint64_t graph) {
        const std::lock_guard lock(mutex);
        graph_of[stream] = graph;
        count.store(graph_of.size());
    }
    uint64_t take(uint64_t stream) {
        const std::lock_guard lock(mutex);
        auto found = graph_of.find(stream);
        if (found == graph_of.end()) return 0;
        const uint64_t graph = found->second;
        graph_of.erase(found);
        count.store(graph_of.size());
        return graph;
    }
    // The graph that work on `stream` goes to; 0 when that cannot be told, because the stream has joined one
    // of several captures.
    uint64_t find(uint64_t stream) {
        const std::lock_guard lock(mutex);
        auto found = graph_of.find(stream);
        if (found != graph_of.end()) return found->second;
        return graph_of.size() == 1 ? graph_of.begin()->second : 0;
    }
};

Captures& captures() {
    static auto* all = new Captures;
    return *all;
}

CUresult begin(CUstream stream, CUstreamCaptureMode mode, bool per_thread) {
    Call call;
    if (CUresult error = call.begin()) return error;
    wire::cuStreamBeginCapture_v2_message message{};
    if (!call.stream(stream, per_thread, message.hStream)) return CUDA_ERROR_INVALID_HANDLE;
    message.mode = mode;
    const auto op = wire::kOp_cuStreamBeginCapture_v2;
    const CUresult result = call.ask(op, 0, &message, sizeof message, nullptr, 0);
    if (result != CUDA_SUCCESS) return result;
    // The graph has its handle from the beginning, because programs may ask for it while it is captured.
    const uint64_t graph = graphs().add([&](Graph& made, uint64_t) { made.device = call.device(); });
    captures().add(message.hStream, graph);
    return CUDA_SUCCESS;
}

CUresult end(CUstream stream, CUgraph* graph, bool per_thread) {
    Call call;
    if (CUresult error = call.begin()) return error;
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    wire::cuStreamEndCapture_message message{};
    if (!call.stream(stream, per_thread, message.hStream)) return CUDA_ERROR_INVALID_HANDLE;
    message.phGraph = captures().take(message.hStream);
    if (!message.phGraph) return CUDA_ERROR_ILLEGAL_STATE;
    const CUresult result = call.ask(wire::kOp_cuStreamEndCapture, 0, &message, sizeof message, nullptr, 0);
    if (result != CUDA_SUCCESS) {
        graphs().remove(message.phGraph);
        drop_user_objects(message.phGraph);
    }
    *graph = result == CUDA_SUCCESS ? reinterpret_cast<CUgraph>(message.phGraph) : nullptr;
    return result;
}

CUresult status_of(CUstream stream, CUstreamCaptureStatus* status, bool per_thread) {
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    const auto handle = reinterpret_cast<uint64_t>(stream);
    if (captures().count.load() == 0) {
        if (handle > kPerThreadStreamHandle && !streams().find(handle)) return CUDA_ERROR_INVALID_HANDLE;
        *status = CU_STREAM_CAPTURE_STATUS_NONE;
        return CUDA_SUCCESS;
    }
    Call call;
    if (CUresult error = call.begin()) return error;
    wire::cuStreamIsCapturing_message message{};
    if (!call.stream(stream, per_thread, message.hStream)) return CUDA_ERROR_INVALID_HANDLE;
    return call.ask(wire::kOp_cuStreamIsCapturing, 0, &message, sizeof message, status, sizeof *status);
}

// Its nodes have no handles here: the list of them is empty.
CUresult info_of(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                 const CUgraphNode** dependencies, size_t* count, bool per_thread) {
    if (CUresult error = status_of(stream, status, per_thread)) return error;
    if (*status == CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_SUCCESS;
    auto handle = reinterpret_cast<uint64_t>(stream);
    if (handle == 0 && per_thread) handle = kPerThreadStreamHandle;
    const uint64_t made = captures().find(handle);
    if (id) *id = made;
    if (graph) *graph = reinterpret_cast<CUgraph>(made);
    if (dependencies) *dependencies = nullptr;
    if (count) *count = 0;
    return CUDA_SUCCESS;
}

CUresult instantiate(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
    Call call;
    if (CUresult error = call.begin()) return error;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    wire::cuGraphInstantiateWithFlags_message message{};
    if (!call.graph(graph, message.hGraph)) return CUDA_ERROR_INVALID_HANDLE;
    message.flags = flags;
    message.phGraphExec = execs().add([&](Graph& made, uint64_t) { made.device = call.device(); });
    if (!message.phGraphExec) return CUDA_ERROR_OUT_OF_MEMORY;
    const auto op = wire::kOp_cuGraphInstantiateWithFlags;
    const CUresult result = call.ask(op, 0, &message, sizeof message, nullptr, 0);
    if (result != CUDA_SUCCESS) {
        execs().remove(message.phGraphExec);
    } else {
        copy_user_objects(message.hGraph, message.phGraphExec);
    }
    *out = result == CUDA_SUCCESS ? reinterpret_cast<CUgraphExec>(message.phGraphExec) : nullptr;
    return result;
}

CUresult instantiate_with(CUgraphExec* out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params,
                          bool per_thread) {
    if (!params) return CUDA_ERROR_INVALID_VALUE;
    const bool upload = params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    const CUresult result =
        instantiate(out, graph, params->flags & ~cuuint64_t{CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD});
    params->hErrNode_out = nullptr;
    params->result_out =
        result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    if (result != CUDA_SUCCESS || !upload) return result;
    return per_thread ? cuGraphUpload_ptsz(*out, params->hUploadStream)
                      : cuGraphUpload(*out, params->hUploadStream);
}

CUresult launch(CUgraphExec exec, CUstream stream, bool per_thread) {
    Call call;
    if (CUresult error = call.begin()) return error;
    wire::cuGraphLaunch_message message{};
    if (!call.exec(exec, message.hGraph) || !call.stream(stream, per_thread, message.hStream)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    call.uses_memory();
    return call.post(wire::kOp_cuGraphLaunch, 0, &message, sizeof message);
}

template <typename Message>
CUresult destroy(HandleTable<Graph>& table, uint64_t handle, uint16_t opcode) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    if (!table.remove(handle)) return CUDA_ERROR_INVALID_HANDLE;
    drop_user_objects(handle);
    const Message message{handle};
    return call.post(opcode, 0, &message, sizeof message);
}

void forget(HandleTable<Graph>& table, uint8_t device) {
    for (const uint64_t handle : table.all()) {
        const Graph* graph = table.find(handle);
        if (!graph || graph->device != device) continue;
        table.remove(handle);
        drop_user_objects(handle);
    }
}

}  // namespace

HandleTable<Graph>& graphs() {
    static auto* table = new HandleTable<Graph>(wire::HandleKind::graph);
    return *table;
}

HandleTable<Graph>& execs() {
    static auto* table = new HandleTable<Graph>(wire::HandleKind::exec);
    return *table;
}

void forget_graphs(uint8_t device) {
    forget(graphs(), device);
    forget(execs(), device);
}

}  // namespace client

using namespace client;

extern "C" {

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
    return begin(hStream, mode, false);
}
CUresult cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode) {
    return begin(hStream, mode, true);
}
CUresult cuStreamBeginCapture(CUstream hStream) {
    return begin(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL, false);
}
CUresult cuStreamBeginCapture_ptsz(CUstream hStream) {
    return begin(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL, true);
}
CUresult cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
    return end(hStream, phGraph, false);
}
CUresult cuStreamEndCapture_ptsz(CUstream hStream, CUgraph* phGraph) {
    return end(hStream, phGraph, true);
}
CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
    return status_of(hStream, captureStatus, false);
}
CUresult cuStreamIsCapturing_ptsz(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
    return status_of(hStream, captureStatus, true);
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                cuuint64_t* id_out) {
    return info_of(hStream, captureStatus_out, id_out, nullptr, nullptr, nullptr, false);
}
CUresult cuStreamGetCaptureInfo_ptsz(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                     cuuint64_t* id_out) {
    return info_of(hStream, captureStatus_out, id_out, nullptr, nullptr, nullptr, true);
}
CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                   cuuint64_t* id_out, CUgraph* graph_out,
                                   const CUgraphNode** dependencies_out, size_t* numDependencies_out) {
    return info_of(hStream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out,
                   false);
}
CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                        cuuint64_t* id_out, CUgraph* graph_out,
                                        const CUgraphNode** dependencies_out, size_t* numDependencies_out) {
    return info_of(hStream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out,
                   true);
}
CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                   cuuint64_t* id_out, CUgraph* graph_out,
                                   const CUgraphNode** dependencies_out, const CUgraphEdgeData** edgeData_out,
                                   size_t* numDependencies_out) {
    if (edgeData_out) *edgeData_out = nullptr;
    return info_of(hStream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out,
                   false);
}
CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                        cuuint64_t* id_out, CUgraph* graph_out,
                                        const CUgraphNode** dependencies_out,
                                        const CUgraphEdgeData** edgeData_out, size_t* numDependencies_out) {
    if (edgeData_out) *edgeData_out = nullptr;
    return info_of(hStream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out,
                   true);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    static thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!mode) return CUDA_ERROR_INVALID_VALUE;
    std::swap(*mode, current);
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph, unsigned long long flags) {
    return instantiate(phGraphExec, hGraph, flags);
}
CUresult cuGraphInstantiate(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                            char* logBuffer, size_t bufferSize) {
    if (phErrorNode) *phErrorNode = nullptr;
    if (logBuffer && bufferSize) *logBuffer = 0;
    return instantiate(phGraphExec, hGraph, 0);
}
CUresult cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                               char* logBuffer, size_t bufferSize) {
    return cuGraphInstantiate(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}
CUresult cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
    return instantiate_with(phGraphExec, hGraph, instantiateParams, false);
}
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* phGraphExec, CUgraph hGraph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
    return instantiate_with(phGraphExec, hGraph, instantiateParams, true);
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
    return launch(hGraphExec, hStream, false);
}
CUresult cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
    return launch(hGraphExec, hStream, true);
}
CUresult cuGraphDestroy(CUgraph hGraph) {
    return destroy<wire::cuGraphDestroy_message>(graphs(), reinterpret_cast<uint64_t>(hGraph),
                                                 wire::kOp_cuGraphDestroy);
}
CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) {
    return destroy<wire::cuGraphExecDestroy_message>(execs(), reinterpret_cast<uint64_t>(hGraphExec),
                                                     wire::kOp_cuGraphExecDestroy);
}
}
