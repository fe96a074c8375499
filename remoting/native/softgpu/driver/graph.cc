#include "graph.h"

#include <algorithm>
#include <utility>

#include "capture.h"
#include "driver.h"

namespace softgpu::driver {
namespace {

constexpr size_t kMaxNodes = 1 << 20;

}  // namespace

Graph::~Graph() {
    for (const NodeRef& node : nodes_) handles_.remove(node->handle);
}

bool Graph::holds(const NodeRef& node) const {
    return before_.count(node) != 0;
}

NodeRef Graph::add(CUgraphNodeType type, std::vector<Step> steps, const Nodes& after) {
    auto node = std::make_shared<GraphNode>(weak_from_this(), type, std::move(steps));
    {
        const std::lock_guard lock(mutex_);
        require(nodes_.size() < kMaxNodes, CUDA_ERROR_OUT_OF_MEMORY);
        Nodes unique = after;
        std::sort(unique.begin(), unique.end());
        unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
        for (const NodeRef& other : unique) require(holds(other));
        nodes_.push_back(node);
        before_.emplace(node, std::move(unique));
    }
    handles_.add(node);
    return node;
}

// Whether `to` has to wait for `from`, directly or not.
bool Graph::reaches(const NodeRef& from, const NodeRef& to) const {
    Nodes open{to};
    std::map<NodeRef, bool> seen;
    while (!open.empty()) {
        const NodeRef node = open.back();
        open.pop_back();
        if (node == from) return true;
        if (!seen.emplace(node, true).second) continue;
        const Nodes& next = before_.at(node);
        open.insert(open.end(), next.begin(), next.end());
    }
    return false;
}

void Graph::connect(const NodeRef& from, const NodeRef& to) {
    const std::lock_guard lock(mutex_);
    require(holds(from) && holds(to) && !reaches(to, from));
    Nodes& list = before_.at(to);
    require(std::find(list.begin(), list.end(), from) == list.end());
    list.push_back(from);
}

void Graph::disconnect(const NodeRef& from, const NodeRef& to) {
    const std::lock_guard lock(mutex_);
    require(holds(from) && holds(to));
    require(std::erase(before_.at(to), from) == 1);
}

void Graph::remove(const NodeRef& node) {
    {
        const std::lock_guard lock(mutex_);
        require(std::erase(nodes_, node) == 1);
        before_.erase(node);
        for (auto& [other, list] : before_) std::erase(list, node);
    }
    handles_.remove(node->handle);
}

Nodes Graph::nodes() const {
    const std::lock_guard lock(mutex_);
    return nodes_;
}

Nodes Graph::before(const NodeRef& node) const {
    const std::lock_guard lock(mutex_);
    require(holds(node));
    return before_.at(node);
}

Nodes Graph::after(const NodeRef& node) const {
    Nodes found;
    for (const auto& [from, to] : edges()) {
        if (from == node) found.push_back(to);
    }
    return found;
}

std::vector<std::pair<NodeRef, NodeRef>> Graph::edges() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<NodeRef, NodeRef>> found;
    for (const NodeRef& to : nodes_) {
        for (const NodeRef& from : before_.at(to)) found.emplace_back(from, to);
    }
    return found;
}

Nodes Graph::in_order() const {
    std::map<NodeRef, size_t> missing;
    std::map<NodeRef, Nodes> waiting;
    Nodes ready;
    for (const NodeRef& node : nodes_) {
        const Nodes& list = before_.at(node);
        missing[node] = list.size();
        if (list.empty()) ready.push_back(node);
        for (const NodeRef& other : list) waiting[other].push_back(node);
    }
    for (size_t next = 0; next < ready.size(); ++next) {
        const NodeRef node = ready[next];
        for (const NodeRef& other : waiting[node]) {
            if (--missing[other] == 0) ready.push_back(other);
        }
    }
    return ready;
}

std::vector<CUgraphNodeType> Graph::types() const {
    const std::lock_guard lock(mutex_);
    std::vector<CUgraphNodeType> types;
    for (const NodeRef& node : in_order()) types.push_back(node->type);
    return types;
}

std::vector<Step> Graph::steps() const {
    const std::lock_guard lock(mutex_);
    std::vector<Step> steps;
    for (const NodeRef& node : in_order()) {
        for (const Step& step : node->steps) {
            if (step.body) steps.push_back(step);
        }
    }
    return steps;
}

std::shared_ptr<Graph> Graph::clone(uint64_t new_id) const {
    auto copy = std::make_shared<Graph>(handles_, new_id);
    const std::lock_guard lock(mutex_);
    std::map<NodeRef, NodeRef> twin;
    for (const NodeRef& node : in_order()) {
        Nodes after;
        for (const NodeRef& other : before_.at(node)) after.push_back(twin.at(other));
        twin[node] = copy->add(node->type, node->steps, after);
    }
    copy->objects_ = objects_;
    return copy;
}

void Graph::retain(const UserObjectRef& object, unsigned count) {
    const std::lock_guard lock(mutex_);
    objects_[object] += count;
}

void Graph::release(const UserObjectRef& object, unsigned count) {
    UserObjectRef last;  // destroyed after the lock is given back
    const std::lock_guard lock(mutex_);
    auto it = objects_.find(object);
    require(it != objects_.end() && it->second >= count);
    if ((it->second -= count) == 0) {
        last = it->first;
        objects_.erase(it);
    }
}

std::vector<UserObjectRef> Graph::objects() const {
    const std::lock_guard lock(mutex_);
    std::vector<UserObjectRef> all;
    for (const auto& [object, count] : objects_) all.push_back(object);
    return all;
}

GraphExec::GraphExec(const Graph& graph, uint64_t id, uint64_t flags)
    : Object(kKind),
      id(id),
      flags(flags),
      steps_(graph.steps()),
      types_(graph.types()),
      objects_(graph.objects()) {}

void GraphExec::launch(Stream& stream) {
    const std::lock_guard lock(mutex_);
    std::vector<CompletionRef> before;
    if (last_) before.push_back(last_);
    for (size_t i = 0; i < steps_.size(); ++i) {
        Operation operation{.body = steps_[i].body,
                            .after = std::exchange(before, {}),
                            .calls_program = steps_[i].calls_program};
        // What the program attached lives until the last launch has ended, also when the graph is gone by
        // then.
        if (i + 1 == steps_.size() && !objects_.empty()) {
            operation.body = [body = steps_[i].body, objects = objects_] { return body(); };
        }
        last_ = enqueue(stream, CU_GRAPH_NODE_TYPE_GRAPH, std::move(operation));
    }
}

bool GraphExec::update(const Graph& graph) {
    if (graph.types() != types_) return false;
    std::vector<Step> steps = graph.steps();
    std::vector<UserObjectRef> objects = graph.objects();
    const std::lock_guard lock(mutex_);
    steps_.swap(steps);
    objects_.swap(objects);  // the old ones may call the program as they go: after the lock
    return true;
}

}  // namespace softgpu::driver
