// Executable graphs: a copy of the graph as it was, dissolved into steps, and the changes made to it since.
#pragma once

#include <set>
#include <unordered_map>

#include "frame.h"
#include "memory.h"

namespace graphs {

// An update that cannot be: why, and where in the new graph.
struct Mismatch {
    CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    const Node* node = nullptr;
    const Node* from = nullptr;
};

class Exec : public Object {
  public:
    static constexpr Kind kKind = Kind::exec;
    Exec(uint64_t flags) : Object(kKind), flags(flags), id(next_graph_id()) {}
    const uint64_t flags;
    const unsigned id;

    // Once, when it has its handle.
    void build(const GraphRef& graph);
    // Once, when it has its handle no longer.
    void retire();
    // The node of the copy for a node of the graph that it was made from.
    Node& twin(const Node& original) const;
    void set(Node& twin, Params params);
    void enable(Node& twin, bool enabled);
    bool enabled(const Node& twin) const { return !disabled_.contains(&twin); }
    // Takes over what `graph` does. Changes nothing when there is a mismatch.
    Mismatch update(const Graph& graph);
    void set_child(Node& twin, const Graph& graph);

    GraphRef copy() const { return copy_; }
    // Before a launch, under the frame's lock: what it allocates and frees. Throws INVALID_VALUE.
    void account();
    // What lives as long as a launch.
    std::shared_ptr<void> keep() const { return kept_; }
    const std::shared_ptr<Replay>& replay() const { return replay_; }
    std::mutex& launching() { return launching_; }
    std::vector<CUevent> recorded() const;  // by its record nodes

  private:
    using Pairs = std::vector<std::pair<Node*, const Node*>>;
    void flatten(const Graph& graph, std::vector<uint32_t> entry, std::vector<uint32_t>& exits,
                 unsigned depth);
    uint32_t step(const Node* node, std::vector<uint32_t> after);
    void gather(const Graph& graph);
    void apply(const Pairs& pairs);
    Mismatch match(const Graph& mine, const Graph& other, Pairs& pairs, unsigned depth) const;

    struct Kept {
        std::vector<UserObjectRef> objects;
        std::vector<AllocationRef> memory;
    };
    GraphRef source_;  // only of a graph with memory, which knows of its one instance
    GraphRef copy_;
    std::vector<Step> steps_;
    std::unordered_map<uint64_t, Node*> twins_;  // by the handle of the original
    std::unordered_map<const Node*, uint32_t> step_of_;
    std::set<const Node*> disabled_;
    std::shared_ptr<Kept> kept_;
    std::vector<std::pair<AllocationRef, bool>> memory_;  // in order; true: allocated, false: freed
    std::shared_ptr<Replay> replay_;
    std::mutex launching_;
};
using ExecRef = std::shared_ptr<Exec>;

}  // namespace graphs
