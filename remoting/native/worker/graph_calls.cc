// The calls about executable graphs (wire/graph_wire.h).
#include "graph.h"

namespace worker {
namespace {

constexpr size_t kDescriptionsAtOnce = 512;  // that come in parts, of a session: one a thread

// What a driver takes to make a graph of a description, at most: nodes, their parameters, and copies of both.
uint64_t build_cost(uint64_t steps, uint64_t bytes) {
    constexpr uint64_t kFixed = 1 << 20, kStep = 4096, kByte = 6;
    return kFixed + steps * kStep + bytes * kByte;
}

bool find(Context& context, uint64_t handle, std::shared_ptr<BuiltGraph>& graph) {
    return context.session().graphs.find(handle, graph);
}

}  // namespace

CUresult handle_graph_part(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    uint64_t handle;
    if (!payload.take(handle)) return kMalformed;
    Session& session = context.session();
    const std::lock_guard lock(session.graphs_mutex);
    auto& parts = session.graph_parts;
    HostMemory& memory = context.worker().host_memory;
    if (!parts.contains(handle) && parts.size() == kDescriptionsAtOnce) return kMalformed;
    GraphDescription& description = parts.try_emplace(handle, memory.graphs).first->second;
    const auto more = payload.rest();
    auto& bytes = description.bytes;
    if (bytes.size() + more.size() > wire::kMaxGraphBytes) return kMalformed;
    description.no_room = description.no_room || memory.level(more.size()) == HostMemory::Level::full ||
                          !description.share.grow(more.size());
    if (!description.no_room) {
        bytes.insert(bytes.end(), more.begin(), more.end());
    } else {
        bytes = std::vector<std::byte>();
        description.share.drop();
    }
    return CUDA_SUCCESS;
}

CUresult handle_graph_make(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::GraphHead head;
    if (!payload.take(head) || !payload.finished()) return kMalformed;
    Session& session = context.session();
    if (!session.graphs.may_add(head.graph, wire::HandleKind::exec)) return kMalformed;
    HostMemory& memory = context.worker().host_memory;
    GraphDescription description(memory.graphs);
    {
        const std::lock_guard lock(session.graphs_mutex);
        if (auto found = session.graph_parts.extract(head.graph)) {
            description.no_room = found.mapped().no_room;
            description.bytes = std::move(found.mapped().bytes);
        }
    }
    if (head.steps > wire::kMaxGraphSteps) return kMalformed;
    if (description.no_room) return session.refuse(memory.no_more_graphs());
    const HostMemory::Room room(memory, build_cost(head.steps, description.bytes.size()),
                                [&] { return !session.ended(); });
    if (!room) return session.refuse(room.refusal("making this graph", "Make smaller or fewer graphs"));
    const auto graph = std::make_shared<BuiltGraph>(context.worker(), context.device());
    if (CUresult error = graph->build(context, head, description.bytes)) return error;
    return session.graphs.add(head.graph, graph) ? CUDA_SUCCESS : kMalformed;
}

CUresult handle_graph_set(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::GraphChange change;
    std::shared_ptr<BuiltGraph> graph;
    if (!payload.take(change)) return kMalformed;
    if (!find(context, change.graph, graph)) return CUDA_ERROR_INVALID_HANDLE;
    return graph->set(context, change, payload.rest());
}

CUresult handle_graph_enable(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::GraphChange change;
    std::shared_ptr<BuiltGraph> graph;
    if (!payload.take(change) || !payload.finished() || change.kind > 1) return kMalformed;
    if (!find(context, change.graph, graph)) return CUDA_ERROR_INVALID_HANDLE;
    return graph->enable(change.step, change.kind == 1);
}

CUresult handle_graph_input(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::GraphInput input;
    std::shared_ptr<BuiltGraph> graph;
    if (!payload.take(input)) return kMalformed;
    if (!find(context, input.graph, graph)) return CUDA_ERROR_INVALID_HANDLE;
    return graph->input(context.session(), input, payload.rest());
}

// A replay launches its kernels too: a program that does nothing else is not idle.
CUresult handle_graph_run(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::GraphRun run;
    std::shared_ptr<BuiltGraph> graph;
    CUstream stream;
    if (!payload.take(run) || !payload.finished()) return kMalformed;
    if (!find(context, run.graph, graph) || !context.stream(run.stream, stream))
        return CUDA_ERROR_INVALID_HANDLE;
    context.worker().status.launches.fetch_add(1, std::memory_order_relaxed);
    context.session().has_launched.store(true, std::memory_order_relaxed);
    const CUresult result = graph->run(context.session(), run, stream);
    if (result != CUDA_SUCCESS && !graph->refuse_calls(*context.session().host_calls)) return kMalformed;
    return result;
}

CUresult handle_graph_output(Context& context, uint8_t, wire::Reader& payload, wire::Writer& reply) {
    wire::GraphOutput output;
    std::shared_ptr<BuiltGraph> graph;
    if (!payload.take(output) || !payload.finished() || output.wait > 1) return kMalformed;
    if (!find(context, output.graph, graph)) return CUDA_ERROR_INVALID_HANDLE;
    return graph->output(output, reply);
}

CUresult handle_graph_look(Context& context, uint8_t, wire::Reader& payload, wire::Writer& reply) {
    wire::GraphLook look;
    std::shared_ptr<BuiltGraph> graph;
    if (!payload.take(look) || look.give > 1) return kMalformed;
    if (!find(context, look.graph, graph)) return CUDA_ERROR_INVALID_HANDLE;
    return graph->look(look, payload.rest(), reply);
}

// Launches under way go on, and so does what they use.
CUresult handle_graph_end(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    uint64_t handle;
    std::shared_ptr<BuiltGraph> graph;
    if (!payload.take(handle) || !payload.finished()) return kMalformed;
    Session& session = context.session();
    const std::lock_guard lock(session.graphs_mutex);
    // One that could not be made has left its description at most.
    session.graph_parts.erase(handle);
    if (!session.graphs.take(handle, graph)) return CUDA_SUCCESS;
    std::erase_if(session.ending_graphs, [](const auto& ending) { return ending->idle(); });
    if (!graph->idle()) session.ending_graphs.push_back(std::move(graph));
    return CUDA_SUCCESS;
}

}  // namespace worker
