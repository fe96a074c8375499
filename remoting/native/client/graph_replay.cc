#include "graph_replay.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "call.h"
#include "calls_wire.h"
#include "copies_back.h"
#include "copy.h"
#include "graph_platform.h"
#include "host_calls.h"
#include "launch.h"
#include "log.h"
#include "mapped.h"
#include "memory_map.h"
#include "stream_event.h"

namespace client {
namespace {

// A program that launches without ever waiting waits here, so that the worker's memory stays bounded.
constexpr uint64_t kMaxInFlight = wire::kMaxGraphImage / 2;

void put_kernel(const graphs::KernelParams& params, wire::Writer& payload) {
    const Kernel& kernel = kernel_of_node(params);
    wire::LaunchAttribute sent[wire::kMaxLaunchAttributes];
    to_wire(params.attributes, sent);
    payload.put(launch_head(shape_of(params), kernel, 0, params.attributes.size()));
    payload.put_bytes(sent, params.attributes.size() * sizeof *sent);
    payload.put_bytes(params.packed.data(), params.packed.size());
}

// Before the graph's copies are looked at: what a kernel is given is on the device for them, too.
void reach_kernel(Call& call, const graphs::Node& node) {
    const auto* kernel = std::get_if<graphs::KernelParams>(&node.params);
    if (kernel) graphs::check(reach_parameters(call, kernel->packed.data(), kernel->packed.size()));
}

// Whether kernels use pinned memory there, since the graph was made: its copies are of the host's side.
bool has_come_to_device(const wire::Box& box) {
    const auto memory = MemoryMap::get().find(box.address);
    return memory && memory->kind == Memory::Kind::pinned && memory->device_address;
}

bool lies_in(const wire::Box& box, const Memory& memory) {
    return box.address < memory.base + memory.bytes && memory.base < box.address + wire::span(box);
}

}  // namespace

ForwardedGraph::Work ForwardedGraph::work_of(const graphs::Node& node, wire::Writer& payload) const {
    Work work;
    if (const auto* kernel = std::get_if<graphs::KernelParams>(&node.params)) {
        work.kind = wire::StepKind::kernel;
        put_kernel(*kernel, payload);
    } else if (const auto* copy = std::get_if<graphs::CopyParams>(&node.params)) {
        cuda::CopyRequest request;
        graphs::check(cuda::read_copy_3d(&copy->copy, request, front::shape_of_array));
        if (request.empty()) return work;
        CopyPlaces places;
        graphs::check(find_places(request, places));
        work.kind = wire::StepKind::copy;
        work.copy = {places.to, places.from, !places.to_device, !places.from_device};
        work.host = !places.to_device || !places.from_device;
    } else if (const auto* fill = std::get_if<graphs::FillParams>(&node.params)) {
        const auto& p = fill->fill;
        if (p.width == 0 || p.height == 0) return work;
        work.kind = wire::StepKind::fill;
        payload.put(wire::GraphFill{p.dst, p.pitch, p.width, p.height, p.value, p.elementSize});
    } else if (const auto* wait = std::get_if<graphs::WaitParams>(&node.params)) {
        work.kind = wire::StepKind::wait_event;
        payload.put(reinterpret_cast<uint64_t>(wait->event));
    } else if (const auto* record = std::get_if<graphs::RecordParams>(&node.params)) {
        work.kind = wire::StepKind::record_event;
        payload.put(reinterpret_cast<uint64_t>(record->event));
    } else if (const auto* call = std::get_if<graphs::HostParams>(&node.params)) {
        work.kind = wire::StepKind::host;
        work.call = *call;
    }
    return work;
}

// Of all host ends: the image, and what is sent for it.
void ForwardedGraph::lay_out() {
    std::vector<wire::Box> ends, read;
    bool writes_host = false;
    host_copies_.clear();
    for (uint32_t i = 0; i < steps_.size(); ++i) {
        const Work& work = steps_[i];
        if (!work.host) continue;
        host_copies_.push_back(i);
        writes_host = writes_host || work.copy.to_image;
        if (work.copy.to_image) ends.push_back(work.copy.to);
        if (work.copy.from_image) ends.push_back(work.copy.from);
        if (work.copy.from_image) read.push_back(work.copy.from);
    }
    writes_host_.store(writes_host);
    layout_ = ImageLayout(std::move(ends));
    graphs::require(layout_.bytes() <= wire::kMaxGraphImage, CUDA_ERROR_OUT_OF_MEMORY);
    std::sort(read.begin(), read.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
    inputs_.clear();
    for (const wire::Box& box : read) {
        const uint64_t stop = box.address + wire::span(box);
        if (!inputs_.empty() && box.address <= inputs_.back().start + inputs_.back().bytes &&
            layout_.offset_of(box.address) == inputs_.back().offset + (box.address - inputs_.back().start)) {
            inputs_.back().bytes = std::max(inputs_.back().bytes, stop - inputs_.back().start);
        } else {
            inputs_.push_back({box.address, stop - box.address, layout_.offset_of(box.address)});
        }
    }
}

wire::GraphCopy ForwardedGraph::in_image(const wire::GraphCopy& copy) const {
    wire::GraphCopy placed = copy;
    if (copy.to_image) placed.to.address = layout_.offset_of(copy.to.address);
    if (copy.from_image) placed.from.address = layout_.offset_of(copy.from.address);
    return placed;
}

ForwardedGraph::ForwardedGraph(uint64_t handle, std::span<const graphs::Step> steps, uint64_t flags)
    : handle_(handle) {
    try {
        describe(steps, flags);
    } catch (const graphs::Failure&) {
        release_tickets();
        throw;
    }
}

void ForwardedGraph::describe(std::span<const graphs::Step> steps, uint64_t flags) {
    graphs::require(steps.size() <= wire::kMaxGraphSteps, CUDA_ERROR_OUT_OF_MEMORY);
    std::vector<wire::Writer> payloads(steps.size());
    recorded_.resize(steps.size());
    Call call;
    graphs::check(call.begin());
    device_ = call.device();
    for (const graphs::Step& step : steps) {
        if (step.node) reach_kernel(call, *step.node);
    }
    for (size_t i = 0; i < steps.size(); ++i) {
        steps_.push_back(steps[i].node ? work_of(*steps[i].node, payloads[i]) : Work{});
        if (const auto* record =
                steps[i].node ? std::get_if<graphs::RecordParams>(&steps[i].node->params) : nullptr)
            recorded_[i] = record->event;
    }
    lay_out();
    find_what_functions_see(steps);
    wire::Writer description;
    for (size_t i = 0; i < steps.size(); ++i) {
        if (steps_[i].kind == wire::StepKind::copy) payloads[i].put(in_image(steps_[i].copy));
        if (steps_[i].kind == wire::StepKind::host) {
            renew_ticket(static_cast<uint32_t>(i));
            payloads[i].put(steps_[i].ticket);
        }
        description.put(wire::GraphStep{static_cast<uint32_t>(steps_[i].kind),
                                        static_cast<uint32_t>(steps[i].after.size()),
                                        static_cast<uint32_t>(payloads[i].size()), 0});
        description.put_bytes(steps[i].after.data(), steps[i].after.size() * sizeof(uint32_t));
        description.put_bytes(payloads[i].bytes().data(), payloads[i].size());
    }
    graphs::require(description.size() <= wire::kMaxGraphBytes, CUDA_ERROR_OUT_OF_MEMORY);
    auto rest = description.bytes();
    while (!rest.empty()) {
        const auto part = rest.first(std::min<size_t>(rest.size(), wire::kMaxPayload / 2));
        uint64_t graph = handle_;
        const iovec parts[2] = {{&graph, sizeof graph}, {const_cast<std::byte*>(part.data()), part.size()}};
        graphs::check(call.post_parts(wire::kOpGraphPart, 0, parts, 2));
        rest = rest.subspan(part.size());
    }
    const wire::GraphHead head{handle_, flags, layout_.bytes(), static_cast<uint32_t>(steps.size()), 0};
    const CUresult made = call.ask(wire::kOpGraphMake, 0, &head, sizeof head, nullptr, 0);
    if (made == CUDA_SUCCESS) return;
    // An earlier call's error comes instead of this one's answer: then the description still lies there.
    call.post(wire::kOpGraphEnd, 0, &handle_, sizeof handle_);
    graphs::refuse(made);
}

ForwardedGraph::~ForwardedGraph() {
    Call call;
    const bool reachable = call.begin_without_context() == CUDA_SUCCESS;
    // What it has written must reach the program although nobody will ask this graph again.
    if (reachable) deliver(call, true);
    GraphOutputs::get().remove(this);
    release_tickets();
    if (reachable) call.post(wire::kOpGraphEnd, 0, &handle_, sizeof handle_);
}

// Within a launch a copy of the host's side is in no order with a kernel that uses the same memory.
void ForwardedGraph::check_kernel(const graphs::KernelParams& kernel) const {
    const std::vector<std::byte>& packed = kernel.packed;
    for (size_t at = 0; at + sizeof(uint64_t) <= packed.size(); at += sizeof(uint64_t)) {
        uint64_t value;
        std::memcpy(&value, packed.data() + at, sizeof value);
        const auto memory = MemoryMap::get().find(value);
        if (!memory || memory->kind != Memory::Kind::pinned) continue;
        const bool copied = std::any_of(host_copies_.begin(), host_copies_.end(), [&](uint32_t which) {
            const wire::GraphCopy& copy = steps_[which].copy;
            return (copy.to_image && lies_in(copy.to, *memory)) ||
                   (copy.from_image && lies_in(copy.from, *memory));
        });
        if (!copied) continue;
        tell_user(
            "A kernel of an executable graph was given pinned host memory that the same graph copies from or "
            "to, and that no kernel used when it was made; instantiate the graph again with this kernel.");
        graphs::refuse(CUDA_ERROR_NOT_SUPPORTED);
    }
}

void ForwardedGraph::set(uint32_t step, const graphs::Node& node) {
    Call call;
    graphs::check(call.begin());
    reach_kernel(call, node);
    const std::lock_guard lock(mutex_);
    if (const auto* kernel = std::get_if<graphs::KernelParams>(&node.params)) check_kernel(*kernel);
    wire::Writer payload;
    const Work work = work_of(node, payload);
    const Work before = steps_[step];
    // The driver's node stays what it is.
    graphs::require(work.kind == before.kind && work.host == before.host);
    if (work.kind == wire::StepKind::nothing) return;
    auto send = [&](uint32_t which, const void* bytes, size_t size) {
        const wire::GraphChange change{handle_, which, static_cast<uint32_t>(steps_[which].kind)};
        const iovec parts[2] = {{const_cast<wire::GraphChange*>(&change), sizeof change},
                                {const_cast<void*>(bytes), size}};
        graphs::check(call.post_parts(wire::kOpGraphSet, 0, parts, 2));
    };
    if (work.kind == wire::StepKind::host) {
        steps_[step].call = work.call;
        renew_ticket(step);
        send(step, &steps_[step].ticket, sizeof steps_[step].ticket);
        return;
    }
    if (work.kind != wire::StepKind::copy) {
        if (const auto* record = std::get_if<graphs::RecordParams>(&node.params))
            recorded_[step] = record->event;
        send(step, payload.bytes().data(), payload.size());
        return;
    }
    graphs::check(deliver_locked(call, true));  // to where the launches before have it
    steps_[step] = work;
    try {
        if (work.host) lay_out();
        check_functions();
    } catch (const graphs::Failure&) {
        steps_[step] = before;
        lay_out();
        throw;
    }
    // Where one range moves, others may, too.
    for (const uint32_t which : work.host ? host_copies_ : std::vector<uint32_t>{step}) {
        const wire::GraphCopy placed = in_image(steps_[which].copy);
        send(which, &placed, sizeof placed);
    }
    if (!work.host) return;
    for (const uint32_t which : calls_) {
        renew_ticket(which);
        send(which, &steps_[which].ticket, sizeof steps_[which].ticket);
    }
}

void ForwardedGraph::enable(uint32_t step, bool enabled) {
    const std::lock_guard lock(mutex_);
    if (steps_[step].kind == wire::StepKind::nothing) return;
    Call call;
    graphs::check(call.begin());
    const wire::GraphChange change{handle_, step, enabled};
    graphs::check(call.post(wire::kOpGraphEnable, 0, &change, sizeof change));
}

void ForwardedGraph::send_inputs(Call& call) {
    for (const HostRange& range : inputs_) {
        for (uint64_t done = 0; done < range.bytes;) {
            const uint64_t chunk = std::min<uint64_t>(range.bytes - done, wire::kChunk);
            wire::GraphInput head{handle_, layout_.bytes(), range.offset + done};
            const iovec parts[2] = {{&head, sizeof head},
                                    {reinterpret_cast<void*>(range.start + done), chunk}};
            graphs::check(call.post_parts(wire::kOpGraphInput, 0, parts, 2));
            done += chunk;
        }
    }
}

void ForwardedGraph::launch(const graphs::Stream& stream, std::shared_ptr<void> keep) {
    Call call;
    graphs::check(call.begin_for(reinterpret_cast<CUstream>(stream.wire)));
    graphs::check(call.uses_memory());
    const bool beside_kernels = copies_what_kernels_use();
    if (beside_kernels) graphs::check(call.wait_for_stream(stream.wire));
    if (!inputs_.empty()) {
        graphs::check(GraphOutputs::get().settle(call, inputs_));
        graphs::check(HostCalls::get().wait_for(stream.wire, call));
        for (const HostRange& range : inputs_) CopiesBack::get().settle(range.start, range.bytes);
    }
    {
        const std::lock_guard lock(mutex_);
        if (!inputs_.empty()) {
            make_room(call);
            send_inputs(call);
        }
        for (const CUevent event : recorded_) {
            if (event) count_record(event);
        }
        for (const uint32_t step : calls_) HostCalls::get().launch(steps_[step].ticket, stream.wire);
        const wire::GraphRun run{handle_, stream.wire, layout_.bytes()};
        graphs::check(call.post(wire::kOpGraphRun, 0, &run, sizeof run));
        kept_.swap(keep);
        undelivered_ = writes_host_;
        if (beside_kernels) graphs::check(deliver_locked(call, true));
    }
    if (writes_host_) GraphOutputs::get().add(this);
}

// Then what kernels did before the launch is waited for, and what it writes is there when the next ones
// begin.
bool ForwardedGraph::copies_what_kernels_use() {
    const std::lock_guard lock(mutex_);
    return std::any_of(host_copies_.begin(), host_copies_.end(), [&](uint32_t step) {
        const wire::GraphCopy& copy = steps_[step].copy;
        return (copy.to_image && has_come_to_device(copy.to)) ||
               (copy.from_image && has_come_to_device(copy.from));
    });
}

void ForwardedGraph::make_room(Call& call) {
    if (in_flight_ > 0 && in_flight_ + layout_.bytes() > kMaxInFlight) {
        const wire::GraphOutput wait{handle_, 0, 0, 1};
        uint32_t done = 0;
        graphs::check(call.ask(wire::kOpGraphOutput, 0, &wait, sizeof wait, &done, sizeof done));
        in_flight_ = 0;
    }
    in_flight_ += layout_.bytes();
}

bool ForwardedGraph::writes_to(uint64_t start, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    return std::any_of(host_copies_.begin(), host_copies_.end(), [&](uint32_t step) {
        const wire::GraphCopy& copy = steps_[step].copy;
        if (!copy.to_image) return false;
        return copy.to.address < start + bytes && start < copy.to.address + wire::span(copy.to);
    });
}

CUresult ForwardedGraph::deliver_locked(Call& call, bool wait) {
    if (!undelivered_) return CUDA_SUCCESS;
    for (const uint32_t step : host_copies_) {
        const wire::GraphCopy& copy = steps_[step].copy;
        if (!copy.to_image) continue;
        const uint64_t offset = layout_.offset_of(copy.to.address);
        const CUresult result = bring(call, handle_, wire::kOpGraphOutput, copy.to, offset, wait);
        if (result == CUDA_ERROR_NOT_FOUND) break;
        if (result != CUDA_SUCCESS) return result;
    }
    in_flight_ = 0;
    undelivered_ = false;
    return CUDA_SUCCESS;
}

CUresult ForwardedGraph::deliver(Call& call, bool wait) {
    const std::lock_guard lock(mutex_);
    return deliver_locked(call, wait);
}

GraphOutputs& GraphOutputs::get() {
    static auto* outputs = new GraphOutputs;
    return *outputs;
}

void GraphOutputs::add(ForwardedGraph* graph) {
    const std::lock_guard lock(mutex_);
    if (std::find(graphs_.begin(), graphs_.end(), graph) == graphs_.end()) graphs_.push_back(graph);
    count_.store(graphs_.size(), std::memory_order_release);
}

void GraphOutputs::remove(ForwardedGraph* graph) {
    const std::lock_guard lock(mutex_);
    std::erase(graphs_, graph);
    count_.store(graphs_.size(), std::memory_order_release);
}

void GraphOutputs::forget() {
    const std::lock_guard lock(mutex_);
    graphs_.clear();
    count_.store(0, std::memory_order_release);
}

// The first error; what has been brought leaves the list.
template <typename Deliver>
CUresult GraphOutputs::deliver_each(Deliver deliver) {
    CUresult first = CUDA_SUCCESS;
    const std::lock_guard lock(mutex_);
    std::erase_if(graphs_, [&](ForwardedGraph* graph) {
        const CUresult result = deliver(*graph);
        if (first == CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) first = result;
        return result == CUDA_SUCCESS;
    });
    count_.store(graphs_.size(), std::memory_order_release);
    return first;
}

CUresult GraphOutputs::deliver(Call& call) {
    return deliver_each([&](ForwardedGraph& graph) { return graph.deliver(call, false); });
}

CUresult GraphOutputs::settle(Call& call, std::span<const HostRange> ranges) {
    if (!any()) return CUDA_SUCCESS;
    return deliver_each([&](ForwardedGraph& graph) {
        const bool concerned = std::any_of(ranges.begin(), ranges.end(), [&](const HostRange& range) {
            return graph.writes_to(range.start, range.bytes);
        });
        return concerned ? graph.deliver(call, true) : CUDA_ERROR_NOT_READY;
    });
}

}  // namespace client
