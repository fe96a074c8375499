// Entry points: graphs, their nodes and edges.
#include "arguments.h"
#include "dot.h"

using namespace graphs;

extern "C" {

CUresult cuGraphCreate(CUgraph* phGraph, unsigned int flags) {
    return call([&] {
        require(phGraph != nullptr && flags == 0);
        const auto graph = std::make_shared<Graph>();
        table().add(graph);
        *phGraph = handle_of<CUgraph>(*graph);
    });
}

CUresult cuGraphDestroy(CUgraph hGraph) {
    return call([&] {
        const GraphRef graph = find_graph(hGraph);
        require(!graph->owned);
        graph->retire();
        Frame::discard(graph);
    });
}

CUresult cuGraphClone(CUgraph* phGraphClone, CUgraph originalGraph) {
    return call([&] {
        require(phGraphClone != nullptr);
        *phGraphClone = handle_of<CUgraph>(*find_graph(originalGraph)->clone());
    });
}

CUresult cuGraphNodeFindInClone(CUgraphNode* phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph) {
    return call([&] {
        require(phNode != nullptr);
        const NodeRef original = find_node(hOriginalNode);
        const GraphRef clone = find_graph(hClonedGraph);
        require(clone->cloned_from == original->graph->handle);
        const Node* found = nullptr;
        for (const NodeRef& node : clone->nodes()) {
            if (node->origin == original->handle) found = node.get();
        }
        require(found != nullptr);
        *phNode = handle_of<CUgraphNode>(*found);
    });
}

CUresult cuGraphDestroyNode(CUgraphNode hNode) {
    return call([&] {
        const NodeRef node = find_node(hNode);
        require_may_shrink(*node->graph);
        node->graph->remove(*node);
    });
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType* type) {
    return call([&] {
        require(type != nullptr);
        *type = find_node(hNode)->type();
    });
}

CUresult cuGraphNodeGetContainingGraph(CUgraphNode hNode, CUgraph* phGraph) {
    return call([&] {
        require(phGraph != nullptr);
        *phGraph = handle_of<CUgraph>(*find_node(hNode)->graph);
    });
}

CUresult cuGraphNodeGetLocalId(CUgraphNode hNode, unsigned int* nodeId) {
    return call([&] {
        require(nodeId != nullptr);
        *nodeId = find_node(hNode)->local_id;
    });
}

CUresult cuGraphNodeGetToolsId(CUgraphNode hNode, unsigned long long* toolsNodeId) {
    return call([&] {
        require(toolsNodeId != nullptr);
        const NodeRef node = find_node(hNode);
        *toolsNodeId = static_cast<unsigned long long>(node->graph->id) << 32 | node->local_id;
    });
}

CUresult cuGraphGetId(CUgraph hGraph, unsigned int* graphId) {
    return call([&] {
        require(graphId != nullptr);
        *graphId = find_graph(hGraph)->id;
    });
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes) {
    return call([&] {
        Nodes all;
        for (const NodeRef& node : find_graph(hGraph)->nodes()) all.push_back(node.get());
        list_nodes(all, nodes, numNodes);
    });
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode* rootNodes, size_t* numRootNodes) {
    return call([&] {
        Nodes roots;
        for (const NodeRef& node : find_graph(hGraph)->nodes()) {
            if (node->before.empty()) roots.push_back(node.get());
        }
        list_nodes(roots, rootNodes, numRootNodes);
    });
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edgeData,
                            size_t* numEdges) {
    return call([&] {
        require(numEdges != nullptr && (from == nullptr) == (to == nullptr));
        require(from != nullptr || edgeData == nullptr);
        Nodes starts, ends;
        for (const NodeRef& node : find_graph(hGraph)->nodes()) {
            for (Node* before : node->before) {
                starts.push_back(before);
                ends.push_back(node.get());
            }
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
    return call([&] {
        list_nodes(find_node(hNode)->before, dependencies, numDependencies);
        for (size_t i = 0; dependencies && edgeData && i < *numDependencies; ++i) edgeData[i] = {};
    });
}
CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode* dependencies, size_t* numDependencies) {
    return cuGraphNodeGetDependencies_v2(hNode, dependencies, nullptr, numDependencies);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode* dependentNodes,
                                         CUgraphEdgeData* edgeData, size_t* numDependentNodes) {
    return call([&] {
        list_nodes(find_node(hNode)->after, dependentNodes, numDependentNodes);
        for (size_t i = 0; dependentNodes && edgeData && i < *numDependentNodes; ++i) edgeData[i] = {};
    });
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode* dependentNodes,
                                      size_t* numDependentNodes) {
    return cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes, nullptr, numDependentNodes);
}

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* edgeData, size_t numDependencies) {
    return call([&] {
        const GraphRef graph = find_graph(hGraph);
        const Nodes starts = find_nodes(from, numDependencies), ends = find_nodes(to, numDependencies);
        require_plain_edges(edgeData, numDependencies);
        size_t done = 0;
        try {
            for (; done < numDependencies; ++done) graph->connect(*starts[done], *ends[done]);
        } catch (const Failure&) {
            while (done-- > 0) graph->disconnect(*starts[done], *ends[done]);  // all or none
            throw;
        }
    });
}
CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                size_t numDependencies) {
    return cuGraphAddDependencies_v2(hGraph, from, to, nullptr, numDependencies);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData* edgeData, size_t numDependencies) {
    return call([&] {
        const GraphRef graph = find_graph(hGraph);
        const Nodes starts = find_nodes(from, numDependencies), ends = find_nodes(to, numDependencies);
        require_plain_edges(edgeData, numDependencies);
        if (numDependencies > 0) require_may_shrink(*graph);
        for (size_t i = 0; i < numDependencies; ++i) graph->disconnect(*starts[i], *ends[i]);
    });
}
CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                   size_t numDependencies) {
    return cuGraphRemoveDependencies_v2(hGraph, from, to, nullptr, numDependencies);
}

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char* path, unsigned int flags) {
    return call([&] {
        require(path != nullptr);
        write_dot(*find_graph(hGraph), path, flags);
    });
}
}
