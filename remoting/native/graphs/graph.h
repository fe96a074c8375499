// Graphs as programs make and look at them: nodes, edges, what each node does. Nothing here runs anything.
// All of it belongs to the lock of `Frame` (frame.h).
#pragma once

#include <map>

#include "objects.h"
#include "params.h"

namespace graphs {

inline constexpr size_t kMaxNodes = 1u << 18;  // of a graph, with those of its child graphs
inline constexpr unsigned kMaxDepth = 64;      // of child graphs in child graphs

class UserObject;
using UserObjectRef = std::shared_ptr<UserObject>;

class Node;
using NodeRef = std::shared_ptr<Node>;
using Nodes = std::vector<Node*>;

class Node : public Object {
  public:
    static constexpr Kind kKind = Kind::node;
    Node(Graph& graph, Params params, unsigned local_id)
        : Object(kKind), graph(&graph), params(std::move(params)), local_id(local_id) {}
    Graph* const graph;  // outlives the node's handle
    Params params;
    const unsigned local_id;
    uint64_t origin = 0;         // the handle of the node that this was cloned from
    Nodes before{}, after{};     // in the order in which the edges were made
    std::vector<void*> shown{};  // what a program was given that belongs to the node

    CUgraphNodeType type() const { return type_of(params); }
};

class Graph : public Object, public std::enable_shared_from_this<Graph> {
  public:
    static constexpr Kind kKind = Kind::graph;
    Graph();
    const unsigned id;

    const std::vector<NodeRef>& nodes() const { return nodes_; }
    // Throw INVALID_VALUE for nodes of other graphs, doubled edges, and edges that would close a circle.
    NodeRef add(Params params, const Nodes& before);
    void connect(Node& from, Node& to);
    void disconnect(Node& from, Node& to);
    void remove(Node& node);

    // A copy with handles of its own; the origin of each node is the node here. Throws NOT_SUPPORTED when
    // there is memory of the graph's own in it, which can be only once; `with_memory` shares it.
    std::shared_ptr<Graph> clone(bool with_memory = false) const;
    // Takes away the handles of the graph, its nodes and child graphs. Once, before the last reference goes.
    void retire();

    Nodes in_order() const;                    // as the edges allow
    size_t weight() const { return weight_; }  // nodes ever added, with those of child graphs
    unsigned depth() const;                    // 1 without child graphs
    bool has_memory() const;                   // allocation or free nodes, also in child graphs

    bool owned = false;                           // by a child graph node
    unsigned instances = 0;                       // executable graphs that live, of a graph with memory nodes
    uint64_t cloned_from = 0;                     // the handle of that graph
    std::map<UserObjectRef, unsigned> objects{};  // references that the graph holds

  private:
    void require_own(const Node& node) const;

    std::vector<NodeRef> nodes_;
    unsigned next_local_id_ = 0;
    size_t weight_ = 0;
};
using GraphRef = std::shared_ptr<Graph>;

unsigned next_graph_id();
// Whether `to` has to wait for `from`, directly or not.
bool reaches(const Node& from, const Node& to);

}  // namespace graphs
