// Graphs: work written down to be run again and again. Launching one submits its steps to the stream one
// after the other, in an order that its edges allow; branches are not run side by side.
#pragma once

#include <map>

#include "stream.h"

namespace softgpu::driver {

class Graph;

// What one operation of a stream does, to be done any number of times.
struct Step {
    std::function<CUresult()> body = {};  // none: only an edge
    bool calls_program = false;
};

class GraphNode : public Object {
  public:
    static constexpr Kind kKind = Kind::graph_node;
    GraphNode(std::weak_ptr<Graph> graph, CUgraphNodeType type, std::vector<Step> steps)
        : Object(kKind), graph(std::move(graph)), type(type), steps(std::move(steps)) {}
    const std::weak_ptr<Graph> graph;
    const CUgraphNodeType type;
    const std::vector<Step> steps;  // several for a child graph
};
using NodeRef = std::shared_ptr<GraphNode>;
using Nodes = std::vector<NodeRef>;

// What a program attaches to graphs, to be destroyed by its own function after the last reference: the
// program's, a graph's, or that of a launch under way. Its handle is good as long.
class UserObject {
  public:
    UserObject(HandleTable& handles, void* object, CUhostFn destroy)
        : handles_(handles), object_(object), destroy_(destroy) {}
    ~UserObject() {
        handles_.remove(handle);
        destroy_(object_);
    }
    UserObject(const UserObject&) = delete;
    UserObject& operator=(const UserObject&) = delete;
    uint64_t handle = 0;

  private:
    HandleTable& handles_;
    void* const object_;
    const CUhostFn destroy_;
};
using UserObjectRef = std::shared_ptr<UserObject>;

class Graph : public Object, public std::enable_shared_from_this<Graph> {
  public:
    static constexpr Kind kKind = Kind::graph;
    Graph(HandleTable& handles, uint64_t id) : Object(kKind), id(id), handles_(handles) {}
    ~Graph() override;
    const uint64_t id;

    // All throw INVALID_VALUE for nodes of other graphs and for edges that would close a circle.
    NodeRef add(CUgraphNodeType type, std::vector<Step> steps, const Nodes& after);
    void connect(const NodeRef& from, const NodeRef& to);
    void disconnect(const NodeRef& from, const NodeRef& to);
    void remove(const NodeRef& node);

    Nodes nodes() const;
    Nodes before(const NodeRef& node) const;  // what it waits for
    Nodes after(const NodeRef& node) const;   // what waits for it
    std::vector<std::pair<NodeRef, NodeRef>> edges() const;
    std::vector<CUgraphNodeType> types() const;
    std::vector<Step> steps() const;  // in an order that the edges allow
    std::shared_ptr<Graph> clone(uint64_t id) const;

    void retain(const UserObjectRef& object, unsigned count);
    void release(const UserObjectRef& object, unsigned count);  // throws INVALID_VALUE when there are fewer
    std::vector<UserObjectRef> objects() const;

  private:
    bool holds(const NodeRef& node) const;
    bool reaches(const NodeRef& from, const NodeRef& to) const;
    Nodes in_order() const;

    HandleTable& handles_;
    mutable std::mutex mutex_;
    Nodes nodes_;
    std::map<NodeRef, Nodes> before_;
    std::map<UserObjectRef, unsigned> objects_;
};

class GraphExec : public Object {
  public:
    static constexpr Kind kKind = Kind::graph_exec;
    GraphExec(const Graph& graph, uint64_t id, uint64_t flags);
    const uint64_t id;
    const uint64_t flags;

    // Submits all steps. One launch of a graph waits for the launch before, in whatever stream that was.
    void launch(Stream& stream);
    // False when the other graph has other nodes.
    bool update(const Graph& graph);

  private:
    std::mutex mutex_;
    std::vector<Step> steps_;
    std::vector<CUgraphNodeType> types_;
    std::vector<UserObjectRef> objects_;
    CompletionRef last_;
};

}  // namespace softgpu::driver
