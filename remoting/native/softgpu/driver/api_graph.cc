// Entry points: graphs, their nodes and edges.
#include <fstream>

#include "copy.h"
#include "graph_arguments.h"
#include "launch.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

struct Dependencies {
    const CUgraphNode* nodes;
    size_t count;
};

// Adds a node whose steps `make(context)` gives.
template <class Make>
CUresult add(CUgraphNode* out, CUgraph graph, Dependencies after, CUgraphNodeType type,
             Make&& make) noexcept {
    return context_call([&](Context& context) {
        require(out != nullptr);
        const auto object = find_graph(context.driver, graph);
        const Nodes before = find_nodes(context.driver, after.nodes, after.count);
        *out = as_handle<CUgraphNode>(object->add(type, make(context), before)->handle);
    });
}

std::vector<Step> one(std::function<CUresult()> body, bool calls_program = false) {
    return {{.body = std::move(body), .calls_program = calls_program}};
}

// All versions of kernel node parameters begin alike.
template <class Params>
LaunchRequest request_of(const Params& p) {
    return {.grid = {p.gridDimX, p.gridDimY, p.gridDimZ},
            .block = {p.blockDimX, p.blockDimY, p.blockDimZ},
            .dynamic_shared = p.sharedMemBytes,
            .params = p.kernelParams,
            .extra = p.extra};
}

template <class Params>
CUresult add_kernel(CUgraphNode* out, CUgraph graph, Dependencies after, const Params* params) {
    return add(out, graph, after, CU_GRAPH_NODE_TYPE_KERNEL, [&](Context& context) {
        require(params != nullptr);
        CUfunction function = params->func;
        if constexpr (requires { params->kern; }) {
            if (!function) function = reinterpret_cast<CUfunction>(params->kern);
        }
        return one(prepare_launch(find_function(context, function), request_of(*params)));
    });
}

CUresult add_memcpy(CUgraphNode* out, CUgraph graph, Dependencies after, const CUDA_MEMCPY3D* params) {
    return add(out, graph, after, CU_GRAPH_NODE_TYPE_MEMCPY, [&](Context& context) {
        require(params != nullptr);
        return one(copy_body(copy_of(context, *params)));
    });
}

template <class Params>
CUresult add_memset(CUgraphNode* out, CUgraph graph, Dependencies after, const Params* p) {
    return add(out, graph, after, CU_GRAPH_NODE_TYPE_MEMSET, [&](Context& context) {
        require(p != nullptr && (p->elementSize == 1 || p->elementSize == 2 || p->elementSize == 4));
        return one(
            fill_body(fill_of(context, p->dst, p->pitch, p->value, p->elementSize, p->width, p->height)));
    });
}

template <class Params>
CUresult add_host(CUgraphNode* out, CUgraph graph, Dependencies after, const Params* params) {
    return add(out, graph, after, CU_GRAPH_NODE_TYPE_HOST, [&](Context&) {
        require(params != nullptr && params->fn != nullptr);
        auto call = [fn = params->fn, data = params->userData] {
            fn(data);
            return CUDA_SUCCESS;
        };
        return one(call, true);
    });
}

CUresult add_child(CUgraphNode* out, CUgraph graph, Dependencies after, CUgraph child) {
    return add(out, graph, after, CU_GRAPH_NODE_TYPE_GRAPH,
               [&](Context& context) { return find_graph(context.driver, child)->steps(); });
}

template <class Body>
CUresult node_call(CUgraphNode handle, Body&& body) noexcept {
    return driver_call([&](Driver& driver) {
        const NodeRef node = find_node(driver, handle);
        body(*graph_of(*node), node);
    });
}

}  // namespace

extern "C" {

CUresult cuGraphCreate(CUgraph* phGraph, unsigned int flags) {
    return driver_call([&](Driver& driver) {
        require(phGraph != nullptr && flags == 0);
        *phGraph = as_handle<CUgraph>(driver.handles.add(new_graph(driver)));
    });
}

CUresult cuGraphDestroy(CUgraph hGraph) {
    return driver_call(
        [&](Driver& driver) { require(driver.handles.remove(find_graph(driver, hGraph)->handle)); });
}

CUresult cuGraphClone(CUgraph* phGraphClone, CUgraph originalGraph) {
    return driver_call([&](Driver& driver) {
        require(phGraphClone != nullptr);
        const auto clone = find_graph(driver, originalGraph)->clone(next_graph_id());
        *phGraphClone = as_handle<CUgraph>(driver.handles.add(clone));
    });
}

CUresult cuGraphAddEmptyNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                             size_t numDependencies) {
    return add(phGraphNode, hGraph, {dependencies, numDependencies}, CU_GRAPH_NODE_TYPE_EMPTY,
               [](Context&) { return std::vector<Step>{}; });
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                 size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
    return add_kernel(phGraphNode, hGraph, {dependencies, numDependencies}, nodeParams);
}

CUresult cuGraphAddKernelNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                              size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
    return add_kernel(phGraphNode, hGraph, {dependencies, numDependencies}, nodeParams);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                              size_t numDependencies, const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
    return add_memcpy(phGraphNode, hGraph, {dependencies, numDependencies}, copyParams);
}

CUresult cuGraphAddMemsetNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                              size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS* memsetParams,
                              CUcontext ctx) {
    return add_memset(phGraphNode, hGraph, {dependencies, numDependencies}, memsetParams);
}

CUresult cuGraphAddHostNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                            size_t numDependencies, const CUDA_HOST_NODE_PARAMS* nodeParams) {
    return add_host(phGraphNode, hGraph, {dependencies, numDependencies}, nodeParams);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                  size_t numDependencies, CUgraph childGraph) {
    return add_child(phGraphNode, hGraph, {dependencies, numDependencies}, childGraph);
}

CUresult cuGraphAddNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData* dependencyData, size_t numDependencies,
                           CUgraphNodeParams* nodeParams) {
    const Dependencies after = {dependencies, numDependencies};
    return driver_call([&](Driver&) {
        require(nodeParams != nullptr);
        require_plain_edges(dependencyData, numDependencies);
        switch (nodeParams->type) {
            case CU_GRAPH_NODE_TYPE_KERNEL:
                return add_kernel(phGraphNode, hGraph, after, &nodeParams->kernel);
            case CU_GRAPH_NODE_TYPE_MEMCPY:
                return add_memcpy(phGraphNode, hGraph, after, &nodeParams->memcpy.copyParams);
            case CU_GRAPH_NODE_TYPE_MEMSET:
                return add_memset(phGraphNode, hGraph, after, &nodeParams->memset);
            case CU_GRAPH_NODE_TYPE_HOST:
                return add_host(phGraphNode, hGraph, after, &nodeParams->host);
            case CU_GRAPH_NODE_TYPE_GRAPH:
                return add_child(phGraphNode, hGraph, after, nodeParams->graph.graph);
            case CU_GRAPH_NODE_TYPE_EMPTY:
                return cuGraphAddEmptyNode(phGraphNode, hGraph, dependencies, numDependencies);
            default:
                return CUDA_ERROR_NOT_SUPPORTED;
        }
    });
}

CUresult cuGraphAddNode_v3(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData* dependencyData, size_t numDependencies,
                           CUgraphNodeParams* nodeParams) {
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams);
}

CUresult cuGraphDestroyNode(CUgraphNode hNode) {
    return node_call(hNode, [](Graph& graph, const NodeRef& node) { graph.remove(node); });
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType* type) {
    return node_call(hNode, [&](Graph&, const NodeRef& node) {
        require(type != nullptr);
        *type = node->type;
    });
}

CUresult cuGraphNodeGetContainingGraph(CUgraphNode hNode, CUgraph* phGraph) {
    return node_call(hNode, [&](Graph& graph, const NodeRef&) {
        require(phGraph != nullptr);
        *phGraph = as_handle<CUgraph>(graph.handle);
    });
}

CUresult cuGraphGetId(CUgraph hGraph, unsigned int* graphId) {
    return driver_call([&](Driver& driver) {
        require(graphId != nullptr);
        *graphId = static_cast<unsigned>(find_graph(driver, hGraph)->id);
    });
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes) {
    return driver_call(
        [&](Driver& driver) { list_nodes(find_graph(driver, hGraph)->nodes(), nodes, numNodes); });
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode* rootNodes, size_t* numRootNodes) {
    return driver_call([&](Driver& driver) {
        const auto graph = find_graph(driver, hGraph);
        Nodes roots;
        for (const NodeRef& node : graph->nodes()) {
            if (graph->before(node).empty()) roots.push_back(node);
        }
        list_nodes(roots, rootNodes, numRootNodes);
    });
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edgeData,
                            size_t* numEdges) {
    return driver_call([&](Driver& driver) {
        require(numEdges != nullptr && (from == nullptr) == (to == nullptr));
        Nodes starts, ends;
        for (const auto& [start, end] : find_graph(driver, hGraph)->edges()) {
            starts.push_back(start);
            ends.push_back(end);
        }
        size_t room = *numEdges;
        list_nodes(starts, from, numEdges);
        list_nodes(ends, to, &room);
        for (size_t i = 0; edgeData && i < room; ++i) edgeData[i] = {};
    });
}

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, size_t* numEdges) {
    return cuGraphGetEdges_v2(hGraph, from, to, nullptr, numEdges);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode* dependencies,
                                       CUgraphEdgeData* edgeData, size_t* numDependencies) {
    return node_call(hNode, [&](Graph& graph, const NodeRef& node) {
        list_nodes(graph.before(node), dependencies, numDependencies);
        for (size_t i = 0; edgeData && i < *numDependencies; ++i) edgeData[i] = {};
    });
}

CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode* dependencies, size_t* numDependencies) {
    return cuGraphNodeGetDependencies_v2(hNode, dependencies, nullptr, numDependencies);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode* dependentNodes,
                                         CUgraphEdgeData* edgeData, size_t* numDependentNodes) {
    return node_call(hNode, [&](Graph& graph, const NodeRef& node) {
        list_nodes(graph.after(node), dependentNodes, numDependentNodes);
        for (size_t i = 0; edgeData && i < *numDependentNodes; ++i) edgeData[i] = {};
    });
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode* dependentNodes,
                                      size_t* numDependentNodes) {
    return cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes, nullptr, numDependentNodes);
}

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* edgeData, size_t numDependencies) {
    return driver_call([&](Driver& driver) {
        require_plain_edges(edgeData, numDependencies);
        const auto graph = find_graph(driver, hGraph);
        const Nodes starts = find_nodes(driver, from, numDependencies);
        const Nodes ends = find_nodes(driver, to, numDependencies);
        for (size_t i = 0; i < numDependencies; ++i) graph->connect(starts[i], ends[i]);
    });
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                size_t numDependencies) {
    return cuGraphAddDependencies_v2(hGraph, from, to, nullptr, numDependencies);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData* edgeData, size_t numDependencies) {
    return driver_call([&](Driver& driver) {
        const auto graph = find_graph(driver, hGraph);
        const Nodes starts = find_nodes(driver, from, numDependencies);
        const Nodes ends = find_nodes(driver, to, numDependencies);
        for (size_t i = 0; i < numDependencies; ++i) graph->disconnect(starts[i], ends[i]);
    });
}

CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                   size_t numDependencies) {
    return cuGraphRemoveDependencies_v2(hGraph, from, to, nullptr, numDependencies);
}

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char* path, unsigned int flags) {
    return driver_call([&](Driver& driver) {
        require(path != nullptr);
        const auto graph = find_graph(driver, hGraph);
        std::ofstream file(path);
        require(file.good(), CUDA_ERROR_OPERATING_SYSTEM);
        file << "digraph dot {\n";
        for (const NodeRef& node : graph->nodes()) {
            file << "  node_" << node->handle << " [label=\"type " << node->type << "\"];\n";
        }
        for (const auto& [from, to] : graph->edges()) {
            file << "  node_" << from->handle << " -> node_" << to->handle << ";\n";
        }
        file << "}\n";
        require(file.flush().good(), CUDA_ERROR_OPERATING_SYSTEM);
    });
}
}
