#include "graph_arguments.h"

#include <algorithm>

namespace softgpu::driver {

uint64_t next_graph_id() {
    static std::atomic<uint64_t> next{1};
    return next++;
}

std::shared_ptr<Graph> new_graph(Driver& driver) {
    return std::make_shared<Graph>(driver.handles, next_graph_id());
}

std::shared_ptr<Graph> find_graph(Driver& driver, CUgraph handle) {
    return driver.handles.get<Graph>(handle, CUDA_ERROR_INVALID_VALUE);
}

NodeRef find_node(Driver& driver, CUgraphNode handle) {
    return driver.handles.get<GraphNode>(handle, CUDA_ERROR_INVALID_VALUE);
}

std::shared_ptr<Graph> graph_of(const GraphNode& node) {
    auto graph = node.graph.lock();
    require(graph != nullptr);
    return graph;
}

Nodes find_nodes(Driver& driver, const CUgraphNode* handles, size_t count) {
    require(handles != nullptr || count == 0);
    Nodes nodes;
    for (size_t i = 0; i < count; ++i) nodes.push_back(find_node(driver, handles[i]));
    return nodes;
}

void require_plain_edges(const CUgraphEdgeData* edges, size_t count) {
    for (size_t i = 0; edges && i < count; ++i) {
        require(edges[i].from_port == 0 && edges[i].to_port == 0 &&
                    edges[i].type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT,
                CUDA_ERROR_NOT_SUPPORTED);
    }
}

void list_nodes(const Nodes& nodes, CUgraphNode* out, size_t* count) {
    require(count != nullptr);
    if (out) {
        const size_t room = *count;
        for (size_t i = 0; i < room; ++i) {
            out[i] = i < nodes.size() ? as_handle<CUgraphNode>(nodes[i]->handle) : nullptr;
        }
        *count = std::min(room, nodes.size());
    } else {
        *count = nodes.size();
    }
}

}  // namespace softgpu::driver
