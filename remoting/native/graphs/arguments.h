// How the entry points read their arguments.
#pragma once

#include "exec.h"

namespace graphs {

struct Dependencies {
    const CUgraphNode* nodes;
    size_t count;
    const CUgraphEdgeData* edges = nullptr;
};

GraphRef find_graph(CUgraph handle);
NodeRef find_node(CUgraphNode handle);
Nodes find_nodes(const CUgraphNode* handles, size_t count);
inline ExecRef find_exec(CUgraphExec handle) {
    return table().get<Exec>(handle);
}
// The graph, where nodes or edges may be taken away.
void require_may_shrink(const Graph& graph);

// Throws NOT_SUPPORTED for edges that start a node before the one before has ended.
void require_plain_edges(const CUgraphEdgeData* edges, size_t count);

// Fills `out` as CUDA's list functions do: `*count` is the room going in and the number coming out; without
// `out` only the number is told.
void list_nodes(const Nodes& nodes, CUgraphNode* out, size_t* count);

// What CUDA's structures say, checked.
template <class T>
const T& given(const T* pointer) {
    require(pointer != nullptr);
    return *pointer;
}
KernelParams kernel_params(const CUDA_KERNEL_NODE_PARAMS_v2& params);
KernelParams kernel_params(const CUDA_KERNEL_NODE_PARAMS_v1& params);
CopyParams copy_params(const CUDA_MEMCPY3D& copy, CUcontext ctx);
FillParams fill_params(const CUDA_MEMSET_NODE_PARAMS_v2& fill);
FillParams fill_params(const CUDA_MEMSET_NODE_PARAMS_v1& fill, CUcontext ctx);
HostParams host_params(const CUDA_HOST_NODE_PARAMS_v1& params);
ChildParams child_params(CUgraph child, CUgraphChildGraphNodeOwnership ownership);
WaitParams wait_params(CUevent event);
RecordParams record_params(CUevent event);
AllocParams alloc_params(const CUDA_MEM_ALLOC_NODE_PARAMS_v2& params);
// As cuMemAllocAsync in a captured stream has it; `address` is told at once.
AllocParams alloc_params(size_t bytes, CUdeviceptr* address);
FreeParams free_params(CUdeviceptr address);
Params any_params(const CUgraphNodeParams& params);
// What a node of a graph may become: memory nodes stay as they are.
Params new_params(const Node& node, const CUgraphNodeParams& params);

// And back. What the answer points to belongs to the node.
void show(Node& node, CUDA_KERNEL_NODE_PARAMS_v2& out);
void show(const Node& node, CUDA_MEM_ALLOC_NODE_PARAMS_v2& out);
void show(Node& node, CUgraphNodeParams& out);

// The node's parameters of that kind; throws INVALID_VALUE when it is of another.
template <class T>
T& params_of(Node& node) {
    T* params = std::get_if<T>(&node.params);
    require(params != nullptr);
    return *params;
}

// Adds a node and remembers what it allocates or frees.
NodeRef add_node(Graph& graph, Params params, const Nodes& before);

}  // namespace graphs
