// How the entry points for graphs read their arguments.
#pragma once

#include "driver.h"
#include "graph.h"

namespace softgpu::driver {

std::shared_ptr<Graph> new_graph(Driver& driver);  // without a handle
std::shared_ptr<Graph> find_graph(Driver& driver, CUgraph handle);
NodeRef find_node(Driver& driver, CUgraphNode handle);
std::shared_ptr<Graph> graph_of(const GraphNode& node);
Nodes find_nodes(Driver& driver, const CUgraphNode* handles, size_t count);
uint64_t next_graph_id();

// Throws NOT_SUPPORTED for edges that start a node before the one before has ended.
void require_plain_edges(const CUgraphEdgeData* edges, size_t count);

// Fills `out` as CUDA's list functions do: `*count` is the room going in and the number coming out; without
// `out` only the number is told.
void list_nodes(const Nodes& nodes, CUgraphNode* out, size_t* count);

}  // namespace softgpu::driver
