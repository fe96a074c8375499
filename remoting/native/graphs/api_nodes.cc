// Entry points: nodes of each kind, added, shown and changed.
#include <cstring>

#include "arguments.h"

using namespace graphs;

namespace {

// Adds the node that `make` describes.
template <class Make>
CUresult add(CUgraphNode* out, CUgraph graph, const Dependencies& after, Make&& make) noexcept {
    return call([&] {
        require(out != nullptr);
        platform::require_context();
        const GraphRef target = find_graph(graph);
        const Nodes before = find_nodes(after.nodes, after.count);
        require_plain_edges(after.edges, after.count);
        *out = handle_of<CUgraphNode>(*add_node(*target, make(), before));
    });
}

template <class T, class Out, class Member>
CUresult get(CUgraphNode node, Out* out, Member member) noexcept {
    return call([&] {
        require(out != nullptr);
        *out = params_of<T>(*find_node(node)).*member;
    });
}

// Attributes stay when a kernel node is changed.
void set_kernel(Node& node, KernelParams fresh) {
    KernelParams& params = params_of<KernelParams>(node);
    fresh.attributes = params.attributes;
    platform::check(fresh);
    params = std::move(fresh);
}

template <class T, class Make>
CUresult set(CUgraphNode node, Make&& make) noexcept {
    return call([&] {
        const NodeRef found = find_node(node);
        T& params = params_of<T>(*found);
        if constexpr (std::is_same_v<T, KernelParams>) {
            set_kernel(*found, make());
        } else {
            params = make();
        }
    });
}

}  // namespace

extern "C" {

CUresult cuGraphAddKernelNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                 size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
    return add(phGraphNode, hGraph, {dependencies, numDependencies},
               [&] { return kernel_params(given(nodeParams)); });
}
CUresult cuGraphAddKernelNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                              size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
    return add(phGraphNode, hGraph, {dependencies, numDependencies},
               [&] { return kernel_params(given(nodeParams)); });
}
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS* nodeParams) {
    return call([&] {
        require(nodeParams != nullptr);
        show(*find_node(hNode), *nodeParams);
    });
}
CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
    if (!nodeParams) return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS_v2 p{};
    if (CUresult error = cuGraphKernelNodeGetParams_v2(hNode, &p)) return error;
    *nodeParams = {p.func ? p.func : reinterpret_cast<CUfunction>(p.kern),
                   p.gridDimX,
                   p.gridDimY,
                   p.gridDimZ,
                   p.blockDimX,
                   p.blockDimY,
                   p.blockDimZ,
                   p.sharedMemBytes,
                   p.kernelParams,
                   p.extra};
    return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
    return set<KernelParams>(hNode, [&] { return kernel_params(given(nodeParams)); });
}
CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
    return set<KernelParams>(hNode, [&] { return kernel_params(given(nodeParams)); });
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                              size_t numDependencies, const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
    return add(phGraphNode, hGraph, {dependencies, numDependencies},
               [&] { return copy_params(given(copyParams), ctx); });
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D* nodeParams) {
    return get<CopyParams>(hNode, nodeParams, &CopyParams::copy);
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D* nodeParams) {
    return set<CopyParams>(hNode, [&] { return copy_params(given(nodeParams), nullptr); });
}

CUresult cuGraphAddMemsetNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                              size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS* memsetParams,
                              CUcontext ctx) {
    return add(phGraphNode, hGraph, {dependencies, numDependencies},
               [&] { return fill_params(given(memsetParams), ctx); });
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS* nodeParams) {
    return call([&] {
        require(nodeParams != nullptr);
        const auto& p = params_of<FillParams>(*find_node(hNode)).fill;
        *nodeParams = {p.dst, p.pitch, p.value, p.elementSize, p.width, p.height};
    });
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS* nodeParams) {
    return set<FillParams>(hNode, [&] { return fill_params(given(nodeParams), nullptr); });
}

CUresult cuGraphAddHostNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                            size_t numDependencies, const CUDA_HOST_NODE_PARAMS* nodeParams) {
    return add(phGraphNode, hGraph, {dependencies, numDependencies},
               [&] { return host_params(given(nodeParams)); });
}
CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS* nodeParams) {
    return call([&] {
        require(nodeParams != nullptr);
        const HostParams& params = params_of<HostParams>(*find_node(hNode));
        *nodeParams = {params.fn, params.data};
    });
}
CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS* nodeParams) {
    return set<HostParams>(hNode, [&] { return host_params(given(nodeParams)); });
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                  size_t numDependencies, CUgraph childGraph) {
    return add(phGraphNode, hGraph, {dependencies, numDependencies},
               [&] { return child_params(childGraph, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE); });
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph* phGraph) {
    return call([&] {
        require(phGraph != nullptr);
        *phGraph = handle_of<CUgraph>(*params_of<ChildParams>(*find_node(hNode)).graph);
    });
}

CUresult cuGraphAddEmptyNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                             size_t numDependencies) {
    return add(phGraphNode, hGraph, {dependencies, numDependencies}, [] { return EmptyParams{}; });
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                   size_t numDependencies, CUevent event) {
    return add(phGraphNode, hGraph, {dependencies, numDependencies}, [&] { return record_params(event); });
}
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent* event_out) {
    return get<RecordParams>(hNode, event_out, &RecordParams::event);
}
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event) {
    return set<RecordParams>(hNode, [&] { return record_params(event); });
}

CUresult cuGraphAddEventWaitNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                 size_t numDependencies, CUevent event) {
    return add(phGraphNode, hGraph, {dependencies, numDependencies}, [&] { return wait_params(event); });
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent* event_out) {
    return get<WaitParams>(hNode, event_out, &WaitParams::event);
}
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event) {
    return set<WaitParams>(hNode, [&] { return wait_params(event); });
}

CUresult cuGraphAddMemAllocNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS* nodeParams) {
    return add(phGraphNode, hGraph, {dependencies, numDependencies}, [&] {
        CUDA_MEM_ALLOC_NODE_PARAMS_v2 wanted{};
        static_assert(sizeof wanted == sizeof *nodeParams);  // the versions are laid out alike
        std::memcpy(&wanted, &given(nodeParams), sizeof wanted);
        AllocParams params = alloc_params(wanted);
        nodeParams->dptr = params.memory->address;
        return params;
    });
}
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS* params_out) {
    return call([&] {
        require(params_out != nullptr);
        CUDA_MEM_ALLOC_NODE_PARAMS_v2 shown{};
        show(*find_node(hNode), shown);
        std::memcpy(params_out, &shown, sizeof shown);
    });
}
CUresult cuGraphAddMemFreeNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                               size_t numDependencies, CUdeviceptr dptr) {
    return add(phGraphNode, hGraph, {dependencies, numDependencies}, [&] { return free_params(dptr); });
}
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr* dptr_out) {
    return get<FreeParams>(hNode, dptr_out, &FreeParams::address);
}

CUresult cuGraphAddNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData* dependencyData, size_t numDependencies,
                           CUgraphNodeParams* nodeParams) {
    return add(phGraphNode, hGraph, {dependencies, numDependencies, dependencyData}, [&] {
        Params params = any_params(given(nodeParams));
        if (auto* alloc = std::get_if<AllocParams>(&params)) nodeParams->alloc.dptr = alloc->memory->address;
        if (auto* child = std::get_if<ChildParams>(&params))
            nodeParams->graph.graph = handle_of<CUgraph>(*child->graph);
        return params;
    });
}
CUresult cuGraphAddNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                        size_t numDependencies, CUgraphNodeParams* nodeParams) {
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, nullptr, numDependencies, nodeParams);
}
CUresult cuGraphAddNode_v3(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData* dependencyData, size_t numDependencies,
                           CUgraphNodeParams* nodeParams) {
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams);
}
CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
    return call([&] {
        const NodeRef node = find_node(hNode);
        Params fresh = new_params(*node, given(nodeParams));
        if (auto* kernel = std::get_if<KernelParams>(&fresh)) {
            set_kernel(*node, std::move(*kernel));
        } else {
            node->params = std::move(fresh);
        }
    });
}
CUresult cuGraphNodeSetParams_v2(CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
    return cuGraphNodeSetParams(hNode, nodeParams);
}
CUresult cuGraphNodeGetParams(CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
    return call([&] {
        require(nodeParams != nullptr);
        show(*find_node(hNode), *nodeParams);
    });
}
}
