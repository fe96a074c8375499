#include "graph.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <unordered_set>

namespace graphs {

Table& table() {
    static auto* all = new Table;
    return *all;
}

unsigned next_graph_id() {
    static std::atomic<unsigned> last{0};
    return ++last;
}

Graph::Graph() : Object(kKind), id(next_graph_id()) {}

void Graph::require_own(const Node& node) const {
    require(node.graph == this && node.handle != 0);
}

NodeRef Graph::add(Params params, const Nodes& before) {
    std::unordered_set<const Node*> seen;
    for (const Node* node : before) {
        require_own(*node);
        require(seen.insert(node).second);
    }
    size_t more = 1;
    if (const auto* child = std::get_if<ChildParams>(&params)) {
        more += child->graph->weight();
        require(child->graph->depth() < kMaxDepth, CUDA_ERROR_NOT_SUPPORTED);
    }
    require(weight_ + more <= kMaxNodes, CUDA_ERROR_OUT_OF_MEMORY);
    weight_ += more;
    auto node = std::make_shared<Node>(*this, std::move(params), next_local_id_++);
    node->before = before;
    nodes_.push_back(node);
    for (Node* other : before) other->after.push_back(node.get());
    table().add(node);
    return node;
}

bool reaches(const Node& from, const Node& to) {
    std::vector<const Node*> open{&from};
    std::unordered_set<const Node*> seen;
    while (!open.empty()) {
        const Node* node = open.back();
        open.pop_back();
        if (node == &to) return true;
        if (!seen.insert(node).second) continue;
        open.insert(open.end(), node->after.begin(), node->after.end());
    }
    return false;
}

void Graph::connect(Node& from, Node& to) {
    require_own(from);
    require_own(to);
    require(std::find(to.before.begin(), to.before.end(), &from) == to.before.end());
    require(!reaches(to, from));
    to.before.push_back(&from);
    from.after.push_back(&to);
}

void Graph::disconnect(Node& from, Node& to) {
    require_own(from);
    require_own(to);
    require(std::erase(to.before, &from) == 1);
    std::erase(from.after, &to);
}

void Graph::remove(Node& node) {
    require_own(node);
    for (Node* other : node.before) std::erase(other->after, &node);
    for (Node* other : node.after) std::erase(other->before, &node);
    if (const auto* child = std::get_if<ChildParams>(&node.params)) child->graph->retire();
    const auto kept = table().remove(node.handle);
    node.handle = 0;
    std::erase_if(nodes_, [&](const NodeRef& other) { return other.get() == &node; });
}

GraphRef Graph::clone(bool with_memory) const {
    require(with_memory || !has_memory(), CUDA_ERROR_NOT_SUPPORTED);
    auto copy = std::make_shared<Graph>();
    table().add(copy);
    copy->cloned_from = handle;
    copy->objects = objects;
    std::unordered_map<const Node*, Node*> twin;
    for (const NodeRef& node : nodes_) {
        Params params = node->params;
        if (auto* child = std::get_if<ChildParams>(&params)) {
            child->graph = child->graph->clone(with_memory);
            child->graph->owned = true;
        }
        const NodeRef added = copy->add(std::move(params), {});
        added->origin = node->handle;
        twin[node.get()] = added.get();
    }
    // An edge's place in both lists is kept: updates pair nodes by it.
    for (const NodeRef& node : nodes_) {
        for (const Node* other : node->before) twin.at(node.get())->before.push_back(twin.at(other));
        for (const Node* other : node->after) twin.at(node.get())->after.push_back(twin.at(other));
    }
    return copy;
}

void Graph::retire() {
    for (const NodeRef& node : nodes_) {
        table().remove(node->handle);
        node->handle = 0;
        if (const auto* child = std::get_if<ChildParams>(&node->params)) child->graph->retire();
    }
    table().remove(handle);
}

Nodes Graph::in_order() const {
    std::unordered_map<const Node*, size_t> missing;
    Nodes ready;
    for (const NodeRef& node : nodes_) {
        missing[node.get()] = node->before.size();
        if (node->before.empty()) ready.push_back(node.get());
    }
    for (size_t next = 0; next < ready.size(); ++next) {
        for (Node* other : ready[next]->after) {
            if (--missing[other] == 0) ready.push_back(other);
        }
    }
    return ready;
}

unsigned Graph::depth() const {
    unsigned deepest = 0;
    for (const NodeRef& node : nodes_) {
        const auto* child = std::get_if<ChildParams>(&node->params);
        if (child) deepest = std::max(deepest, child->graph->depth());
    }
    return deepest + 1;
}

bool Graph::has_memory() const {
    return std::any_of(nodes_.begin(), nodes_.end(), [](const NodeRef& node) {
        if (const auto* child = std::get_if<ChildParams>(&node->params)) return child->graph->has_memory();
        return std::holds_alternative<AllocParams>(node->params) ||
               std::holds_alternative<FreeParams>(node->params);
    });
}

}  // namespace graphs
