// Entry points: executable graphs.
#include "arguments.h"
#include "capture.h"

using namespace graphs;

namespace {

constexpr uint64_t kFlags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                            CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                            CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

void instantiate(CUgraphExec* out, CUgraph graph, uint64_t flags) {
    require(out != nullptr);
    *out = nullptr;
    platform::require_context();
    require((flags & ~(kFlags | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)) == 0);
    require((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) == 0, CUDA_ERROR_NOT_SUPPORTED);
    const GraphRef source = find_graph(graph);
    require(!source->owned);
    const auto exec = std::make_shared<Exec>(flags);
    table().add(exec);
    try {
        exec->build(source);
    } catch (...) {
        exec->retire();
        Frame::discard(table().remove(exec->handle));
        throw;
    }
    *out = handle_of<CUgraphExec>(*exec);
}

// The node of the executable graph that stands for a node of the graph that it was made from.
template <class Body>
CUresult exec_call(CUgraphExec exec, CUgraphNode node, Body&& body) noexcept {
    return call([&] {
        const ExecRef found = find_exec(exec);
        const NodeRef original = find_node(node);
        body(*found, found->twin(*original), *original);
    });
}

template <class Make>
CUresult set(CUgraphExec exec, CUgraphNode node, Make&& make) noexcept {
    return exec_call(exec, node, [&](Exec& target, Node& twin, const Node&) {
        auto fresh = make();
        if constexpr (std::is_same_v<decltype(fresh), KernelParams>) {
            fresh.attributes = params_of<KernelParams>(twin).attributes;
        }
        target.set(twin, std::move(fresh));
    });
}

}  // namespace

extern "C" {

CUresult cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph, unsigned long long flags) {
    return call([&] { instantiate(phGraphExec, hGraph, flags); });
}
CUresult cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                               char* logBuffer, size_t bufferSize) {
    if (phErrorNode) *phErrorNode = nullptr;
    if (logBuffer && bufferSize > 0) *logBuffer = '\0';
    return cuGraphInstantiateWithFlags(phGraphExec, hGraph, 0);
}
CUresult cuGraphInstantiate(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                            char* logBuffer, size_t bufferSize) {
    return cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}
// There is nothing to upload: the device's side has the graph when it is made.
CUresult cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
    if (!instantiateParams) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = cuGraphInstantiateWithFlags(phGraphExec, hGraph, instantiateParams->flags);
    instantiateParams->hErrNode_out = nullptr;
    instantiateParams->result_out =
        result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t* flags) {
    return call([&] {
        require(flags != nullptr);
        *flags = find_exec(hGraphExec)->flags;
    });
}
CUresult cuGraphExecGetId(CUgraphExec hGraphExec, unsigned int* graphId) {
    return call([&] {
        require(graphId != nullptr);
        *graphId = find_exec(hGraphExec)->id;
    });
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) {
    return call([&] {
        const ExecRef exec = find_exec(hGraphExec);
        Frame::discard(table().remove(exec->handle));
        exec->retire();
    });
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
    return set(hGraphExec, hNode, [&] { return kernel_params(given(nodeParams)); });
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
    return set(hGraphExec, hNode, [&] { return kernel_params(given(nodeParams)); });
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
    return set(hGraphExec, hNode, [&] { return copy_params(given(copyParams), ctx); });
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx) {
    return set(hGraphExec, hNode, [&] { return fill_params(given(memsetParams), ctx); });
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                      const CUDA_HOST_NODE_PARAMS* nodeParams) {
    return set(hGraphExec, hNode, [&] { return host_params(given(nodeParams)); });
}
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
    return set(hGraphExec, hNode, [&] { return record_params(event); });
}
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {
    return set(hGraphExec, hNode, [&] { return wait_params(event); });
}
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph) {
    return exec_call(hGraphExec, hNode, [&](Exec& exec, Node& twin, const Node&) {
        exec.set_child(twin, *find_graph(childGraph));
    });
}
CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
    return exec_call(hGraphExec, hNode, [&](Exec& exec, Node& twin, const Node& original) {
        if (given(nodeParams).type == CU_GRAPH_NODE_TYPE_GRAPH) {
            exec.set_child(twin, *find_graph(nodeParams->graph.graph));
            return;
        }
        Params fresh = new_params(original, *nodeParams);
        if (auto* kernel = std::get_if<KernelParams>(&fresh))
            kernel->attributes = params_of<KernelParams>(twin).attributes;
        exec.set(twin, std::move(fresh));
    });
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled) {
    return exec_call(hGraphExec, hNode,
                     [&](Exec& exec, Node& twin, const Node&) { exec.enable(twin, isEnabled != 0); });
}
CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int* isEnabled) {
    return exec_call(hGraphExec, hNode, [&](Exec& exec, Node& twin, const Node&) {
        require(isEnabled != nullptr);
        *isEnabled = exec.enabled(twin);
    });
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                              CUgraphExecUpdateResultInfo* resultInfo) {
    if (!resultInfo) return CUDA_ERROR_INVALID_VALUE;
    *resultInfo = {};
    const CUresult result = call([&] {
        const Mismatch mismatch = find_exec(hGraphExec)->update(*find_graph(hGraph));
        if (mismatch.result == CU_GRAPH_EXEC_UPDATE_SUCCESS) return;
        *resultInfo = {mismatch.result, mismatch.node ? handle_of<CUgraphNode>(*mismatch.node) : nullptr,
                       mismatch.from ? handle_of<CUgraphNode>(*mismatch.from) : nullptr};
        refuse(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    });
    if (result != CUDA_SUCCESS && resultInfo->result == CU_GRAPH_EXEC_UPDATE_SUCCESS)
        resultInfo->result = CU_GRAPH_EXEC_UPDATE_ERROR;
    return result;
}
CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode* hErrorNode_out,
                           CUgraphExecUpdateResult* updateResult_out) {
    CUgraphExecUpdateResultInfo info{};
    const CUresult result = cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
    if (hErrorNode_out) *hErrorNode_out = info.errorNode;
    if (updateResult_out) *updateResult_out = info.result;
    return result;
}

CUresult cuGraphLaunch(CUgraphExec hGraph, CUstream hStream) {
    if (CUresult error = platform::ready()) return error;
    return guarded([&] {
        const Stream stream = platform::stream(hStream);
        // In a capture the graph becomes a child of the one that is captured.
        auto as_child = [&]() -> Params {
            const GraphRef copy = find_exec(hGraph)->copy()->clone();
            copy->owned = true;
            return ChildParams{copy};
        };
        if (any_capture() && captured(stream, as_child)) return;
        ExecRef exec;
        {
            const Frame frame;
            exec = find_exec(hGraph);
            exec->account();
        }
        // Without the frame's lock: a launch may wait for room in its stream.
        const std::lock_guard lock(exec->launching());
        exec->replay()->launch(stream, exec->keep());
    });
}

CUresult cuGraphUpload(CUgraphExec hGraph, CUstream hStream) {
    return call([&] {
        find_exec(hGraph);
        platform::stream(hStream);
    });
}
}
