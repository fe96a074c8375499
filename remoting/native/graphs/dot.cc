#include "dot.h"

#include <fstream>
#include <sstream>

namespace graphs {
namespace {

const char* name_of(CUgraphNodeType type) {
    constexpr const char* kNames[] = {"KERNEL", "MEMCPY", "MEMSET",     "HOST",
                                      "GRAPH",  "EMPTY",  "WAIT_EVENT", "EVENT_RECORD",
                                      "",       "",       "MEM_ALLOC",  "MEM_FREE"};
    return type < std::size(kNames) ? kNames[type] : "";
}

std::string details(const Node& node, unsigned flags) {
    const bool all = flags & CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE;
    std::ostringstream text;
    if (const auto* p = std::get_if<KernelParams>(&node.params);
        p && (all || flags & CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS)) {
        text << "\\ngrid " << p->grid[0] << ',' << p->grid[1] << ',' << p->grid[2] << " block " << p->block[0]
             << ',' << p->block[1] << ',' << p->block[2] << " shared " << p->shared_bytes;
    }
    if (const auto* p = std::get_if<CopyParams>(&node.params);
        p && (all || flags & CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS)) {
        text << "\\n"
             << p->copy.WidthInBytes << " x " << p->copy.Height << " x " << p->copy.Depth << " bytes";
    }
    if (const auto* p = std::get_if<FillParams>(&node.params);
        p && (all || flags & CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS)) {
        text << "\\nvalue " << p->fill.value << " of " << p->fill.elementSize << " bytes, " << p->fill.width
             << " x " << p->fill.height;
    }
    if (const auto* p = std::get_if<AllocParams>(&node.params);
        p && (all || flags & CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS)) {
        text << "\\n" << p->alloc.bytesize << " bytes";
    }
    if (all || flags & CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES) text << "\\nhandle 0x" << std::hex << node.handle;
    return text.str();
}

void write(std::ostream& file, const Graph& graph, unsigned flags) {
    file << "subgraph cluster_" << graph.id << " {\nlabel=\"graph_" << graph.id << "\";\n";
    for (const NodeRef& node : graph.nodes()) {
        file << "\"graph_" << graph.id << "_node_" << node->local_id << "\" [label=\"" << node->local_id
             << ' ' << name_of(node->type()) << details(*node, flags) << "\"];\n";
        for (const Node* before : node->before) {
            file << "\"graph_" << graph.id << "_node_" << before->local_id << "\" -> \"graph_" << graph.id
                 << "_node_" << node->local_id << "\";\n";
        }
    }
    for (const NodeRef& node : graph.nodes()) {
        if (const auto* child = std::get_if<ChildParams>(&node->params)) write(file, *child->graph, flags);
    }
    file << "}\n";
}

}  // namespace

void write_dot(const Graph& graph, const char* path, unsigned flags) {
    std::ofstream file(path);
    require(file.good(), CUDA_ERROR_OPERATING_SYSTEM);
    file << "digraph dot {\n";
    write(file, graph, flags);
    file << "}\n";
    require(file.flush().good(), CUDA_ERROR_OPERATING_SYSTEM);
}

}  // namespace graphs
