#include "arguments.h"

#include <algorithm>
#include <cstring>

#include "launch_buffer.h"

namespace graphs {

GraphRef find_graph(CUgraph handle) {
    return table().get<Graph>(handle);
}

NodeRef find_node(CUgraphNode handle) {
    return table().get<Node>(handle);
}

Nodes find_nodes(const CUgraphNode* handles, size_t count) {
    require(handles != nullptr || count == 0);
    Nodes nodes;
    for (size_t i = 0; i < count; ++i) nodes.push_back(find_node(handles[i]).get());
    return nodes;
}

void require_may_shrink(const Graph& graph) {
    require(!graph.has_memory(), CUDA_ERROR_NOT_SUPPORTED);
}

void require_plain_edges(const CUgraphEdgeData* edges, size_t count) {
    for (size_t i = 0; edges && i < count; ++i) {
        require(edges[i].to_port == 0 && edges[i].type <= CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
        require(edges[i].from_port == 0 && edges[i].type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT,
                CUDA_ERROR_NOT_SUPPORTED);
    }
}

void list_nodes(const Nodes& nodes, CUgraphNode* out, size_t* count) {
    require(count != nullptr);
    if (!out) {
        *count = nodes.size();
        return;
    }
    const size_t room = *count;
    for (size_t i = 0; i < room; ++i) out[i] = i < nodes.size() ? handle_of<CUgraphNode>(*nodes[i]) : nullptr;
    *count = std::min(room, nodes.size());
}

namespace {

template <class From>
KernelParams kernel_of(const From& p) {
    KernelParams params;
    params.func = p.func;
    if constexpr (requires { p.kern; }) {
        params.kern = p.kern;
        params.ctx = p.ctx;
    }
    params.kernel = platform::kernel(params.func, params.kern);
    const unsigned grid[] = {p.gridDimX, p.gridDimY, p.gridDimZ};
    const unsigned block[] = {p.blockDimX, p.blockDimY, p.blockDimZ};
    std::copy(grid, grid + 3, params.grid);
    std::copy(block, block + 3, params.block);
    params.shared_bytes = p.sharedMemBytes;
    const Kernel& kernel = *params.kernel;
    params.packed.resize(kernel.param_bytes);
    check(cuda::pack_parameters(kernel.params, kernel.param_bytes, p.kernelParams, p.extra,
                                params.packed.data()));
    platform::check(params);
    return params;
}

}  // namespace

KernelParams kernel_params(const CUDA_KERNEL_NODE_PARAMS_v2& params) {
    return kernel_of(params);
}
KernelParams kernel_params(const CUDA_KERNEL_NODE_PARAMS_v1& params) {
    return kernel_of(params);
}

CopyParams copy_params(const CUDA_MEMCPY3D& copy, CUcontext ctx) {
    CopyParams params{copy, ctx};
    platform::check(params);
    return params;
}

FillParams fill_params(const CUDA_MEMSET_NODE_PARAMS_v2& fill) {
    require(fill.elementSize == 1 || fill.elementSize == 2 || fill.elementSize == 4);
    FillParams params{fill};
    platform::check(params);
    return params;
}
FillParams fill_params(const CUDA_MEMSET_NODE_PARAMS_v1& fill, CUcontext ctx) {
    return fill_params({fill.dst, fill.pitch, fill.value, fill.elementSize, fill.width, fill.height, ctx});
}

HostParams host_params(const CUDA_HOST_NODE_PARAMS_v1& params) {
    require(params.fn != nullptr);
    return {params.fn, params.userData};
}

ChildParams child_params(CUgraph child, CUgraphChildGraphNodeOwnership ownership) {
    const GraphRef graph = find_graph(child);
    GraphRef own = graph;
    if (ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) {
        require(!graph->owned);
    } else {
        require(ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE);
        own = graph->clone();
    }
    own->owned = true;
    return {own};
}

WaitParams wait_params(CUevent event) {
    platform::event(event);
    return {event};
}
RecordParams record_params(CUevent event) {
    platform::event(event);
    return {event};
}

AllocParams alloc_params(const CUDA_MEM_ALLOC_NODE_PARAMS_v2& p) {
    require(p.poolProps.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
            p.poolProps.handleTypes == CU_MEM_HANDLE_TYPE_NONE);
    require(p.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
    require(p.poolProps.location.id == platform::device(), CUDA_ERROR_INVALID_VALUE);
    require(p.accessDescs != nullptr || p.accessDescCount == 0);
    require(p.bytesize > 0 && p.accessDescCount <= 64);
    AllocParams params{.alloc = p, .memory = Allocation::make(platform::device(), p.bytesize)};
    params.access.assign(p.accessDescs, p.accessDescs + p.accessDescCount);
    params.alloc.dptr = params.memory->address;
    return params;
}

AllocParams alloc_params(size_t bytes, CUdeviceptr* address) {
    CUDA_MEM_ALLOC_NODE_PARAMS_v2 params{};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {platform::device()}};
    params.bytesize = bytes;
    AllocParams made = alloc_params(params);
    *address = made.memory->address;
    return made;
}

FreeParams free_params(CUdeviceptr address) {
    AllocationRef memory = find_allocation(address);
    require(memory != nullptr && memory->freed_by == 0);
    return {address, std::move(memory)};
}

Params any_params(const CUgraphNodeParams& p) {
    switch (p.type) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
            return kernel_of(p.kernel);
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            return copy_params(p.memcpy.copyParams, p.memcpy.copyCtx);
        case CU_GRAPH_NODE_TYPE_MEMSET:
            return fill_params(p.memset);
        case CU_GRAPH_NODE_TYPE_HOST:
            return host_params({p.host.fn, p.host.userData});
        case CU_GRAPH_NODE_TYPE_GRAPH:
            return child_params(p.graph.graph, p.graph.ownership);
        case CU_GRAPH_NODE_TYPE_EMPTY:
            return EmptyParams{};
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
            return wait_params(p.eventWait.event);
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
            return record_params(p.eventRecord.event);
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
            return alloc_params(p.alloc);
        case CU_GRAPH_NODE_TYPE_MEM_FREE:
            return free_params(p.free.dptr);
        case CU_GRAPH_NODE_TYPE_CONDITIONAL:
            gk_unsupported("cuGraphAddNode with a conditional node");
            refuse(CUDA_ERROR_NOT_SUPPORTED);
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
        case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
            gk_unsupported("cuGraphAddNode with a node of memory operations or external semaphores");
            refuse(CUDA_ERROR_NOT_SUPPORTED);
        default:
            refuse(CUDA_ERROR_NOT_SUPPORTED);
    }
}

Params new_params(const Node& node, const CUgraphNodeParams& params) {
    require(params.type == node.type());
    require(params.type != CU_GRAPH_NODE_TYPE_MEM_ALLOC && params.type != CU_GRAPH_NODE_TYPE_MEM_FREE &&
                params.type != CU_GRAPH_NODE_TYPE_GRAPH,
            CUDA_ERROR_NOT_SUPPORTED);
    return any_params(params);
}

void show(Node& node, CUDA_KERNEL_NODE_PARAMS_v2& out) {
    KernelParams& p = params_of<KernelParams>(node);
    node.shown.clear();
    for (const auto& param : p.kernel->params) node.shown.push_back(p.packed.data() + param.offset);
    out = {p.func,     p.grid[0],      p.grid[1],         p.grid[2], p.block[0], p.block[1],
           p.block[2], p.shared_bytes, node.shown.data(), nullptr,   p.kern,     p.ctx};
}

void show(const Node& node, CUDA_MEM_ALLOC_NODE_PARAMS_v2& out) {
    const auto* p = std::get_if<AllocParams>(&node.params);
    require(p != nullptr);
    out = p->alloc;
    out.accessDescs = p->access.data();
    out.accessDescCount = p->access.size();
}

void show(Node& node, CUgraphNodeParams& out) {
    out = {};
    out.type = node.type();
    switch (out.type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: {
            CUDA_KERNEL_NODE_PARAMS_v2 kernel{};
            show(node, kernel);
            static_assert(sizeof kernel == sizeof out.kernel);  // the versions are laid out alike
            std::memcpy(&out.kernel, &kernel, sizeof kernel);
            return;
        }
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            out.memcpy.copyParams = params_of<CopyParams>(node).copy;
            out.memcpy.copyCtx = params_of<CopyParams>(node).ctx;
            return;
        case CU_GRAPH_NODE_TYPE_MEMSET:
            out.memset = params_of<FillParams>(node).fill;
            return;
        case CU_GRAPH_NODE_TYPE_HOST:
            out.host.fn = params_of<HostParams>(node).fn;
            out.host.userData = params_of<HostParams>(node).data;
            return;
        case CU_GRAPH_NODE_TYPE_GRAPH:
            out.graph.graph = handle_of<CUgraph>(*params_of<ChildParams>(node).graph);
            out.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_INVALID;
            return;
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
            out.eventWait.event = params_of<WaitParams>(node).event;
            return;
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
            out.eventRecord.event = params_of<RecordParams>(node).event;
            return;
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
            return show(node, out.alloc);
        case CU_GRAPH_NODE_TYPE_MEM_FREE:
            out.free.dptr = params_of<FreeParams>(node).address;
            return;
        default:
            return;
    }
}

NodeRef add_node(Graph& graph, Params params, const Nodes& before) {
    // A child graph that is moved in may hold memory; nothing may be added to that later.
    const bool memory =
        std::holds_alternative<AllocParams>(params) || std::holds_alternative<FreeParams>(params);
    require(!memory || !graph.owned, CUDA_ERROR_NOT_SUPPORTED);
    const auto* child = std::get_if<ChildParams>(&params);
    const GraphRef moved = child ? child->graph : nullptr;
    NodeRef node;
    try {
        node = graph.add(std::move(params), before);
    } catch (const Failure&) {
        if (moved && moved->cloned_from) moved->retire();
        if (moved) moved->owned = false;
        throw;
    }
    if (auto* alloc = std::get_if<AllocParams>(&node->params)) alloc->memory->owner = graph.id;
    if (auto* freed = std::get_if<FreeParams>(&node->params)) freed->memory->freed_by = graph.id;
    return node;
}

}  // namespace graphs
