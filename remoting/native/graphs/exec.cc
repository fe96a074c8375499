#include "exec.h"

#include <algorithm>
#include <utility>

namespace graphs {
namespace {

constexpr size_t kMaxEdges = 4u << 20;  // of the steps of an executable graph

CUgraphExecUpdateResult changed(const CUDA_MEMCPY3D& a, const CUDA_MEMCPY3D& b) {
    const bool same = a.srcMemoryType == b.srcMemoryType && a.dstMemoryType == b.dstMemoryType;
    return same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

CUgraphExecUpdateResult changed(const CUDA_MEMSET_NODE_PARAMS_v2& a, const CUDA_MEMSET_NODE_PARAMS_v2& b) {
    const bool flat = a.height == 1 && b.height == 1;
    const bool same =
        a.elementSize == b.elementSize && a.width == b.width && a.height == b.height && a.pitch == b.pitch;
    return flat || same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

bool is_cooperative(const KernelParams& params) {
    return std::any_of(params.attributes.begin(), params.attributes.end(), [](const auto& attribute) {
        return attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && attribute.value.cooperative;
    });
}

// Whether a step that did `mine` may do `other`, which is of the same type.
CUgraphExecUpdateResult changed(const Params& mine, const Params& other) {
    if (const auto* copy = std::get_if<CopyParams>(&mine)) {
        return changed(copy->copy, std::get<CopyParams>(other).copy);
    }
    if (const auto* fill = std::get_if<FillParams>(&mine)) {
        return changed(fill->fill, std::get<FillParams>(other).fill);
    }
    if (const auto* kernel = std::get_if<KernelParams>(&mine)) {
        return is_cooperative(*kernel) == is_cooperative(std::get<KernelParams>(other))
                   ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                   : CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
    }
    if (const auto* alloc = std::get_if<AllocParams>(&mine)) {
        return alloc->memory == std::get<AllocParams>(other).memory
                   ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                   : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    }
    if (const auto* freed = std::get_if<FreeParams>(&mine)) {
        return freed->memory == std::get<FreeParams>(other).memory ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                                                   : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

}  // namespace

void Exec::retire() {
    if (copy_) copy_->retire();  // null when building it has failed
    if (source_) --source_->instances;
}

uint32_t Exec::step(const Node* node, std::vector<uint32_t> after) {
    const auto index = static_cast<uint32_t>(steps_.size());
    require(index < kMaxNodes * 2, CUDA_ERROR_OUT_OF_MEMORY);
    if (node) step_of_[node] = index;
    steps_.push_back({node, std::move(after)});
    return index;
}

// `exits`: the steps that end the graph. A child graph begins and ends with one step, so that edges do not
// multiply.
void Exec::flatten(const Graph& graph, std::vector<uint32_t> entry, std::vector<uint32_t>& exits,
                   unsigned depth) {
    require(depth < kMaxDepth, CUDA_ERROR_NOT_SUPPORTED);
    std::unordered_map<const Node*, uint32_t> end;
    for (const Node* node : graph.in_order()) {
        std::vector<uint32_t> after;
        for (const Node* other : node->before) after.push_back(end.at(other));
        if (node->before.empty()) after = entry;
        if (const auto* child = std::get_if<ChildParams>(&node->params)) {
            std::vector<uint32_t> leaves;
            flatten(*child->graph, {step(nullptr, std::move(after))}, leaves, depth + 1);
            end[node] = leaves.size() == 1 ? leaves.front() : step(nullptr, std::move(leaves));
        } else {
            end[node] = step(node, std::move(after));
        }
        if (node->after.empty()) exits.push_back(end[node]);
    }
    if (graph.nodes().empty()) exits = std::move(entry);
}

void Exec::gather(const Graph& graph) {
    for (const auto& [object, count] : graph.objects) kept_->objects.push_back(object);
    for (const Node* node : graph.in_order()) {
        if (const auto* child = std::get_if<ChildParams>(&node->params)) gather(*child->graph);
        if (const auto* alloc = std::get_if<AllocParams>(&node->params))
            memory_.push_back({alloc->memory, true});
        if (const auto* freed = std::get_if<FreeParams>(&node->params))
            memory_.push_back({freed->memory, false});
    }
}

void Exec::build(const GraphRef& graph) {
    if (graph->has_memory()) {
        require(graph->instances == 0, CUDA_ERROR_NOT_SUPPORTED);
        source_ = graph;
        ++graph->instances;
    }
    copy_ = graph->clone(true);
    for (const NodeRef& node : copy_->nodes()) twins_[node->origin] = node.get();
    std::vector<uint32_t> exits;
    flatten(*copy_, {}, exits, 0);
    size_t edges = 0;
    for (const Step& step : steps_) edges += step.after.size();
    require(edges <= kMaxEdges, CUDA_ERROR_OUT_OF_MEMORY);
    kept_ = std::make_shared<Kept>();
    gather(*copy_);
    for (const auto& [memory, allocated] : memory_) kept_->memory.push_back(memory);
    replay_ = platform::make_replay(handle, steps_, flags);
}

Node& Exec::twin(const Node& original) const {
    auto found = twins_.find(original.handle);
    require(found != twins_.end());
    return *found->second;
}

void Exec::set(Node& twin, Params params) {
    require(type_of(params) == twin.type());
    require(changed(twin.params, params) == CU_GRAPH_EXEC_UPDATE_SUCCESS);
    Node probe(*twin.graph, std::move(params), twin.local_id);
    replay_->set(step_of_.at(&twin), probe);
    twin.params = std::move(probe.params);
}

void Exec::enable(Node& twin, bool enabled) {
    const CUgraphNodeType type = twin.type();
    require(type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
            type == CU_GRAPH_NODE_TYPE_MEMSET);
    replay_->enable(step_of_.at(&twin), enabled);
    if (enabled) {
        disabled_.erase(&twin);
    } else {
        disabled_.insert(&twin);
    }
}

// Nodes are paired from the exits against the edges, and edges by their order, as CUDA's manual describes it.
Mismatch Exec::match(const Graph& mine, const Graph& other, Pairs& pairs, unsigned depth) const {
    constexpr auto kTopology = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    require(depth < kMaxDepth, CUDA_ERROR_NOT_SUPPORTED);
    if (mine.nodes().size() != other.nodes().size()) return {kTopology};
    std::vector<std::pair<Node*, const Node*>> open;
    auto next = other.nodes().begin();
    auto next_exit = [&]() -> const Node* {
        while (next != other.nodes().end() && !(*next)->after.empty()) ++next;
        return next == other.nodes().end() ? nullptr : (next++)->get();
    };
    for (const NodeRef& node : mine.nodes()) {
        if (!node->after.empty()) continue;
        const Node* twin = next_exit();
        if (!twin) return {kTopology};
        open.emplace_back(node.get(), twin);
    }
    if (const Node* left = next_exit()) return {kTopology, left};
    std::unordered_map<const Node*, const Node*> paired, back;
    for (const auto& [a, b] : open) paired[a] = b, back[b] = a;
    for (size_t i = 0; i < open.size(); ++i) {
        const auto [a, b] = open[i];
        if (a->type() != b->type()) return {CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, b};
        if (a->before.size() != b->before.size()) return {kTopology, b};
        if (const auto* child = std::get_if<ChildParams>(&a->params)) {
            const Mismatch inner =
                match(*child->graph, *std::get<ChildParams>(b->params).graph, pairs, depth + 1);
            if (inner.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return inner;
        } else if (const auto why = changed(a->params, b->params)) {
            return {why, b};
        } else {
            pairs.emplace_back(a, b);
        }
        for (size_t edge = 0; edge < a->before.size(); ++edge) {
            Node* from = a->before[edge];
            const Node* to = b->before[edge];
            const auto known = paired.find(from);
            const auto known_back = back.find(to);
            if (known == paired.end() && known_back == back.end()) {
                paired[from] = to;
                back[to] = from;
                open.emplace_back(from, to);
            } else if (known == paired.end() || known->second != to) {
                return {kTopology, b, to};
            }
        }
    }
    return {};
}

void Exec::apply(const Pairs& pairs) {
    for (const auto& [mine, other] : pairs) {
        const CUgraphNodeType type = mine->type();
        if (type == CU_GRAPH_NODE_TYPE_EMPTY || type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
            type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
            continue;
        }
        replay_->set(step_of_.at(mine), *other);
        mine->params = other->params;
    }
}

Mismatch Exec::update(const Graph& graph) {
    Pairs pairs;
    const Mismatch mismatch = match(*copy_, graph, pairs, 0);
    if (mismatch.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return mismatch;
    apply(pairs);
    const auto fresh = std::make_shared<Kept>();
    fresh->memory = kept_->memory;
    for (const auto& [object, count] : graph.objects) fresh->objects.push_back(object);
    Frame::discard(std::exchange(kept_, fresh));
    return {};
}

void Exec::set_child(Node& twin, const Graph& graph) {
    const auto* child = std::get_if<ChildParams>(&twin.params);
    require(child != nullptr);
    Pairs pairs;
    const Mismatch mismatch = match(*child->graph, graph, pairs, 0);
    require(mismatch.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
    apply(pairs);
}

void Exec::account() {
    const bool again = flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    std::vector<std::pair<AllocationRef, bool>> done;
    for (const auto& [memory, allocated] : memory_) {
        if (memory->set_live(allocated)) {
            done.emplace_back(memory, allocated);
        } else if (!allocated || !again) {
            // Nothing is launched: what was changed is changed back.
            for (auto undo = done.rbegin(); undo != done.rend(); ++undo) undo->first->set_live(!undo->second);
            refuse(CUDA_ERROR_INVALID_VALUE);
        }
    }
}

std::vector<CUevent> Exec::recorded() const {
    std::vector<CUevent> events;
    for (const Step& step : steps_) {
        if (!step.node) continue;
        if (const auto* record = std::get_if<RecordParams>(&step.node->params))
            events.push_back(record->event);
    }
    return events;
}

}  // namespace graphs
