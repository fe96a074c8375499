#include "graph.h"

#include <algorithm>
#include <cstring>

namespace worker {
namespace {

constexpr uint64_t kStepBytes = 1024;  // what a driver keeps of a step beside its description, about
constexpr size_t kMaxRuns = 1024;      // of a graph with host memory, that have not ended

bool inside(const wire::Box& box, uint64_t image_bytes) {
    const uint64_t span = wire::span(box);
    return wire::well_formed(box) && span <= image_bytes && box.address <= image_bytes - span;
}

// One end of a copy: in the image, or where find_place() says.
CUresult find_end(const Context& context, const wire::Box& box, uint32_t in_image, uint64_t image_bytes,
                  CopyPlace& place) {
    if (in_image > 1) return kMalformed;
    if (!in_image) return find_place(context, box, place);
    place = host_place(box);
    return inside(box, image_bytes) && !box.array ? CUDA_SUCCESS : kMalformed;
}

// Whether the copy may be: within the lease's memory and the image.
CUresult find_ends(const Context& context, const wire::GraphCopy& copy, uint64_t image_bytes, CopyPlace& to,
                   CopyPlace& from) {
    const wire::Box &there = copy.to, &here = copy.from;
    if (!wire::well_formed(there) || !wire::well_formed(here)) return kMalformed;
    if (there.width != here.width || there.height != here.height || there.depth != here.depth)
        return kMalformed;
    if (CUresult error = find_end(context, there, copy.to_image, image_bytes, to)) return error;
    return find_end(context, here, copy.from_image, image_bytes, from);
}

// The copy as a node has it, on this image.
CUDA_MEMCPY3D described(CopyPlace to, CopyPlace from, std::byte* image) {
    for (CopyPlace* place : {&to, &from}) {
        if (place->type == CU_MEMORYTYPE_HOST) place->box.address += reinterpret_cast<uint64_t>(image);
    }
    return described(to, from);
}

CUresult check(const Context& context, const wire::GraphFill& fill) {
    if (fill.element != 1 && fill.element != 2 && fill.element != 4) return kMalformed;
    const uint64_t bytes = pitched(fill.pitch, times(fill.width, fill.element), fill.height);
    return context.accessible(fill.address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUDA_MEMSET_NODE_PARAMS_v1 described(const wire::GraphFill& fill) {
    return {fill.address, fill.pitch, fill.value, fill.element, fill.width, fill.height};
}

// The launch as a node has it.
CUDA_KERNEL_NODE_PARAMS_v2 described(const LaunchRequest& request, cuda::LaunchExtra& extra) {
    const wire::LaunchHead& head = request.head;
    CUDA_KERNEL_NODE_PARAMS_v2 params{};
    params.func = reinterpret_cast<CUfunction>(request.kernel->handle);
    params.gridDimX = head.grid[0];
    params.gridDimY = head.grid[1];
    params.gridDimZ = head.grid[2];
    params.blockDimX = head.block[0];
    params.blockDimY = head.block[1];
    params.blockDimZ = head.block[2];
    params.sharedMemBytes = head.shared_bytes;
    params.extra = extra.list();
    return params;
}

}  // namespace

GraphImage::GraphImage(HostShare share, Session& session, uint64_t bytes)
    : share_(std::move(share)),
      session_(session),
      size_(bytes),
      bytes_(std::make_unique<std::byte[]>(bytes)) {}

GraphImage::~GraphImage() {
    session_.graph_image_bytes.fetch_sub(size_);
}

std::shared_ptr<GraphImage> GraphImage::make(Worker& worker, Session& session, uint64_t bytes) {
    HostShare share(worker.host_memory.graphs);
    // The bytes are there, and seen, when this has returned.
    const HostMemory::Room room(worker.host_memory, bytes);
    if (!room || !share.grow(bytes)) return nullptr;
    if (session.graph_image_bytes.fetch_add(bytes) + bytes > wire::kMaxGraphImages) {
        session.graph_image_bytes.fetch_sub(bytes);
        return nullptr;
    }
    return std::shared_ptr<GraphImage>(new GraphImage(std::move(share), session, bytes));
}

BuiltGraph::~BuiltGraph() {
    const Driver& driver = worker_.driver;
    if (exec_) invoke(driver.cuGraphExecDestroy, exec_);
    if (graph_) invoke(driver.cuGraphDestroy, graph_);
    for (const Run& run : runs_) {
        if (run.end) invoke(driver.cuEventDestroy_v2, run.end);
    }
    for (const CUevent event : spare_events_) invoke(driver.cuEventDestroy_v2, event);
}

CUresult BuiltGraph::build(Context& context, const wire::GraphHead& head,
                           std::span<const std::byte> description) {
    if (head.steps > wire::kMaxGraphSteps || head.image_bytes > wire::kMaxGraphImage) return kMalformed;
    if (!share_.grow(description.size() + uint64_t{head.steps} * kStepBytes))
        return context.session().refuse(worker_.host_memory.no_more_graphs());
    image_bytes_ = head.image_bytes;
    if (head.image_bytes > 0) {
        pointed_to_ = GraphImage::make(worker_, context.session(), head.image_bytes);
        if (!pointed_to_) return context.session().refuse(worker_.host_memory.no_more_graphs());
    }
    const Driver& driver = worker_.driver;
    if (CUresult error = invoke(driver.cuGraphCreate, &graph_, 0u)) return error;
    wire::Reader reader(description);
    uint64_t edges = 0;
    std::vector<CUgraphNode> after;
    for (uint32_t i = 0; i < head.steps; ++i) {
        wire::GraphStep sent;
        std::span<const std::byte> work;
        if (!reader.take(sent) || sent.kind > static_cast<uint32_t>(wire::StepKind::record_event))
            return kMalformed;
        edges += sent.after_count;
        if (edges > wire::kMaxGraphEdges || sent.after_count > i) return kMalformed;
        after.clear();
        for (uint32_t k = 0; k < sent.after_count; ++k) {
            uint32_t before;
            if (!reader.take(before) || before >= i) return kMalformed;
            after.push_back(steps_[before].node);
        }
        std::sort(after.begin(), after.end());
        if (std::adjacent_find(after.begin(), after.end()) != after.end()) return kMalformed;
        if (!reader.take_bytes(sent.bytes, work)) return kMalformed;
        steps_.push_back({static_cast<wire::StepKind>(sent.kind)});
        wire::Reader rest(work);
        if (CUresult error = add(context, steps_.back(), i, rest, after)) return error;
        if (!rest.finished()) return kMalformed;
    }
    if (!reader.finished()) return kMalformed;
    return invoke(
        driver.cuGraphInstantiateWithFlags, &exec_, graph_,
        static_cast<unsigned long long>(head.flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
}

CUresult BuiltGraph::add_kernel(Context& context, Step& step, wire::Reader& work,
                                const std::vector<CUgraphNode>& after) {
    const Driver& driver = worker_.driver;
    LaunchRequest request;
    if (CUresult error = request.take(context, work)) return error;
    cuda::LaunchExtra extra = request.extra();
    const CUDA_KERNEL_NODE_PARAMS_v2 params = described(request, extra);
    if (CUresult error =
            invoke(driver.cuGraphAddKernelNode_v2, &step.node, graph_, after.data(), after.size(), &params)) {
        return error;
    }
    if (libraries_.empty() || libraries_.back() != request.library) libraries_.push_back(request.library);
    for (uint32_t i = 0; i < request.head.attribute_count; ++i) {
        const CUlaunchAttribute& attribute = request.attributes[i];
        if (CUresult error =
                invoke(driver.cuGraphKernelNodeSetAttribute, step.node, attribute.id, &attribute.value)) {
            return error;
        }
    }
    return CUDA_SUCCESS;
}

CUresult BuiltGraph::add(Context& context, Step& step, uint32_t index, wire::Reader& work,
                         const std::vector<CUgraphNode>& after) {
    const Driver& driver = worker_.driver;
    const CUgraphNode* before = after.data();
    const CUcontext own = worker_.devices[device_].context;
    switch (step.kind) {
        case wire::StepKind::kernel:
            return add_kernel(context, step, work, after);
        case wire::StepKind::copy: {
            wire::GraphCopy copy;
            if (!work.take(copy)) return kMalformed;
            CopyPlace to, from;
            if (CUresult error = find_ends(context, copy, image_bytes_, to, from)) return error;
            step.to_array = to.array.memory;
            step.from_array = from.array.memory;
            if (copy.to_image || copy.from_image) {
                step.copy = static_cast<int32_t>(copies_.size());
                copies_.push_back({index, to, from});
            }
            const CUDA_MEMCPY3D params = described(to, from, pointed_to_ ? pointed_to_->data() : nullptr);
            return invoke(driver.cuGraphAddMemcpyNode, &step.node, graph_, before, after.size(), &params,
                          own);
        }
        case wire::StepKind::fill: {
            wire::GraphFill fill;
            if (!work.take(fill)) return kMalformed;
            if (CUresult error = check(context, fill)) return error;
            const CUDA_MEMSET_NODE_PARAMS params = described(fill);
            return invoke(driver.cuGraphAddMemsetNode, &step.node, graph_, before, after.size(), &params,
                          own);
        }
        case wire::StepKind::wait_event:
        case wire::StepKind::record_event: {
            uint64_t handle;
            CUevent event;
            if (!work.take(handle)) return kMalformed;
            if (!context.event(handle, event)) return CUDA_ERROR_INVALID_HANDLE;
            const auto add_node = step.kind == wire::StepKind::wait_event ? driver.cuGraphAddEventWaitNode
                                                                          : driver.cuGraphAddEventRecordNode;
            return invoke(add_node, &step.node, graph_, before, after.size(), event);
        }
        case wire::StepKind::host: {
            CUDA_HOST_NODE_PARAMS params{};
            if (!work.take(step.ticket) || step.ticket == 0) return kMalformed;
            if (CUresult error = expect(context, step.ticket, params)) return error;
            return invoke(driver.cuGraphAddHostNode, &step.node, graph_, before, after.size(), &params);
        }
        case wire::StepKind::nothing:
            return invoke(driver.cuGraphAddEmptyNode, &step.node, graph_, before, after.size());
    }
    return kMalformed;
}

CUresult BuiltGraph::set_copy(Context& context, uint32_t which, const wire::GraphCopy& copy) {
    Step& step = steps_[which];
    CopyPlace to, from;
    if (CUresult error = find_ends(context, copy, wire::kMaxGraphImage, to, from)) return error;
    if ((step.copy >= 0) != (copy.to_image || copy.from_image)) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    if (step.copy >= 0) {
        copies_[static_cast<size_t>(step.copy)] = {which, to, from};
        moved_ = true;
    } else {
        const CUDA_MEMCPY3D params = described(to, from);
        const CUcontext own = worker_.devices[device_].context;
        result = invoke(worker_.driver.cuGraphExecMemcpyNodeSetParams, exec_, step.node, &params, own);
    }
    if (result != CUDA_SUCCESS) return result;
    step.to_array = to.array.memory;
    step.from_array = from.array.memory;
    return CUDA_SUCCESS;
}

CUresult BuiltGraph::set(Context& context, const wire::GraphChange& change, std::span<const std::byte> work) {
    const std::lock_guard lock(mutex_);
    if (change.step >= steps_.size()) return kMalformed;
    Step& step = steps_[change.step];
    if (change.kind != static_cast<uint32_t>(step.kind)) return kMalformed;
    const Driver& driver = worker_.driver;
    const CUcontext own = worker_.devices[device_].context;
    wire::Reader reader(work);
    switch (step.kind) {
        case wire::StepKind::kernel: {
            LaunchRequest request;
            if (CUresult error = request.take(context, reader)) return error;
            if (!reader.finished()) return kMalformed;
            cuda::LaunchExtra extra = request.extra();
            const CUDA_KERNEL_NODE_PARAMS_v2 params = described(request, extra);
            const CUresult result =
                invoke(driver.cuGraphExecKernelNodeSetParams_v2, exec_, step.node, &params);
            const bool known =
                std::find(libraries_.begin(), libraries_.end(), request.library) != libraries_.end();
            if (result == CUDA_SUCCESS && !known) libraries_.push_back(request.library);
            return result;
        }
        case wire::StepKind::copy: {
            wire::GraphCopy copy;
            if (!reader.take(copy) || !reader.finished()) return kMalformed;
            return set_copy(context, change.step, copy);
        }
        case wire::StepKind::fill: {
            wire::GraphFill fill;
            if (!reader.take(fill) || !reader.finished()) return kMalformed;
            if (CUresult error = check(context, fill)) return error;
            const CUDA_MEMSET_NODE_PARAMS params = described(fill);
            return invoke(driver.cuGraphExecMemsetNodeSetParams, exec_, step.node, &params, own);
        }
        case wire::StepKind::wait_event:
        case wire::StepKind::record_event: {
            uint64_t handle;
            CUevent event;
            if (!reader.take(handle) || !reader.finished()) return kMalformed;
            if (!context.event(handle, event)) return CUDA_ERROR_INVALID_HANDLE;
            const auto set_event = step.kind == wire::StepKind::wait_event
                                       ? driver.cuGraphExecEventWaitNodeSetEvent
                                       : driver.cuGraphExecEventRecordNodeSetEvent;
            return invoke(set_event, exec_, step.node, event);
        }
        case wire::StepKind::host: {
            uint64_t ticket;
            CUDA_HOST_NODE_PARAMS params{};
            if (!reader.take(ticket) || !reader.finished() || ticket == 0) return kMalformed;
            if (CUresult error = expect(context, ticket, params)) return error;
            const CUresult result = invoke(driver.cuGraphExecHostNodeSetParams, exec_, step.node, &params);
            if (result == CUDA_SUCCESS) step.ticket = ticket;
            return result;
        }
        default:
            return kMalformed;
    }
}

CUresult BuiltGraph::enable(uint32_t step, bool enabled) {
    const std::lock_guard lock(mutex_);
    if (step >= steps_.size()) return kMalformed;
    return invoke(worker_.driver.cuGraphNodeSetEnabled, exec_, steps_[step].node,
                  static_cast<unsigned>(enabled));
}

CUresult BuiltGraph::input(Session& session, const wire::GraphInput& input,
                           std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    if (input.image_bytes > wire::kMaxGraphImage || bytes.size() > input.image_bytes ||
        input.offset > input.image_bytes - bytes.size()) {
        return kMalformed;
    }
    if (!next_ || next_->size() != input.image_bytes) {
        reap();
        // The image that the copies point to is used again when nobody else needs it.
        const bool idle = pointed_to_ && pointed_to_->size() == input.image_bytes && runs_.empty();
        next_ = idle ? pointed_to_ : GraphImage::make(worker_, session, input.image_bytes);
        if (!next_) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    std::memcpy(next_->data() + input.offset, bytes.data(), bytes.size());
    return CUDA_SUCCESS;
}

// The copies of later launches work on `image`; those under way are not disturbed.
CUresult BuiltGraph::point_to(GraphImage& image) {
    const CUcontext own = worker_.devices[device_].context;
    for (const HostCopy& host : copies_) {
        for (const CopyPlace* place : {&host.to, &host.from}) {
            if (place->type == CU_MEMORYTYPE_HOST && !inside(place->box, image.size())) return kMalformed;
        }
        const CUDA_MEMCPY3D params = described(host.to, host.from, image.data());
        if (CUresult error = invoke(worker_.driver.cuGraphExecMemcpyNodeSetParams, exec_,
                                    steps_[host.step].node, &params, own)) {
            return error;
        }
    }
    return CUDA_SUCCESS;
}

void BuiltGraph::reap() {
    const NewsKept kept(worker_.driver);
    while (!runs_.empty() && runs_.front().end &&
           invoke(worker_.driver.cuEventQuery, runs_.front().end) == CUDA_SUCCESS) {
        spare_events_.push_back(runs_.front().end);
        runs_.pop_front();
    }
}

bool BuiltGraph::idle() {
    const std::lock_guard lock(mutex_);
    reap();
    return runs_.empty();
}

// A run whose end cannot be marked counts as one that never ends: its image stays as long as the session.
CUresult BuiltGraph::mark_end(CUstream stream) {
    // Launches follow each other. Without an image, only the last one's end counts.
    if (copies_.empty() && !runs_.empty())
        return invoke(worker_.driver.cuEventRecord, runs_.back().end, stream);
    CUevent event = nullptr;
    CUresult result = CUDA_SUCCESS;
    if (spare_events_.empty()) {
        result = invoke(worker_.driver.cuEventCreate, &event, unsigned{CU_EVENT_DISABLE_TIMING});
    } else {
        event = spare_events_.back();
        spare_events_.pop_back();
    }
    if (result == CUDA_SUCCESS) result = invoke(worker_.driver.cuEventRecord, event, stream);
    if (result != CUDA_SUCCESS && event) {
        spare_events_.push_back(event);
        event = nullptr;
    }
    runs_.push_back({event, last_});
    return result;
}

CUresult BuiltGraph::run(Session& session, const wire::GraphRun& run, CUstream stream) {
    const std::lock_guard lock(mutex_);
    if (!copies_.empty()) {
        if (run.image_bytes == 0 || run.image_bytes > wire::kMaxGraphImage) return kMalformed;
        reap();
        if (runs_.size() >= kMaxRuns) return CUDA_ERROR_OUT_OF_MEMORY;
        std::shared_ptr<GraphImage> image = std::move(next_);
        // Without input the last image serves again: launches of one graph follow each other.
        if (!image) image = pointed_to_;
        if (!image || image->size() != run.image_bytes)
            image = GraphImage::make(worker_, session, run.image_bytes);
        if (!image) return CUDA_ERROR_OUT_OF_MEMORY;
        if (image != pointed_to_ || moved_) {
            // Until all of them point to it: some may then point to an image that is gone.
            moved_ = true;
            if (CUresult error = point_to(*image)) return error;
            moved_ = false;
        }
        pointed_to_ = std::move(image);
    }
    if (CUresult error = invoke(worker_.driver.cuGraphLaunch, exec_, stream)) return error;
    if (!copies_.empty()) last_ = pointed_to_;
    return copies_.empty() && calls_.empty() ? CUDA_SUCCESS : mark_end(stream);
}

CUresult BuiltGraph::output(const wire::GraphOutput& wanted, wire::Writer& reply) {
    const NewsKept kept(worker_.driver);
    CUevent end = nullptr;
    {
        const std::lock_guard lock(mutex_);
        if (wanted.bytes > wire::kChunk) return kMalformed;
        if (!runs_.empty()) end = runs_.back().end;
        // Its launch has failed, which the program is told by that.
        if (!last_ || (!runs_.empty() && !end)) {
            reply.put(uint32_t{1});
            return CUDA_SUCCESS;
        }
    }
    // The event is recorded again by a later launch at the earliest: then that one is waited for.
    if (end && wanted.wait) {
        if (CUresult error = invoke(worker_.driver.cuEventSynchronize, end)) return error;
    }
    const CUresult state = end ? invoke(worker_.driver.cuEventQuery, end) : CUDA_SUCCESS;
    if (state != CUDA_SUCCESS && state != CUDA_ERROR_NOT_READY) return state;
    reply.put(static_cast<uint32_t>(state == CUDA_SUCCESS));
    if (state != CUDA_SUCCESS) return CUDA_SUCCESS;
    const std::lock_guard lock(mutex_);
    if (wanted.bytes > last_->size() || wanted.offset > last_->size() - wanted.bytes) return kMalformed;
    reply.put_bytes(last_->data() + wanted.offset, wanted.bytes);
    return CUDA_SUCCESS;
}

}  // namespace worker
