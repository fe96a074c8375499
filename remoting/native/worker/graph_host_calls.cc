// Functions of the client that a graph calls, and what they find in its image.
#include <algorithm>

#include "graph.h"

namespace worker {

CUresult BuiltGraph::expect(Context& context, uint64_t ticket, CUDA_HOST_NODE_PARAMS& params) {
    // Those of steps that were set since stay for the launches under way.
    if (calls_.size() >= 2 * wire::kMaxGraphSteps) return CUDA_ERROR_OUT_OF_MEMORY;
    calls_.push_back(context.session().host_calls->keep(ticket));
    params.fn = &HostCalls::kept_function;
    params.userData = calls_.back().get();
    return CUDA_SUCCESS;
}

bool BuiltGraph::refuse_calls(HostCalls& calls) const {
    return std::all_of(steps_.begin(), steps_.end(), [&](const Step& step) {
        return step.kind != wire::StepKind::host || calls.refuse(step.ticket);
    });
}

CUresult BuiltGraph::look(const wire::GraphLook& wanted, std::span<const std::byte> given,
                          wire::Writer& reply) {
    if (given.size() != (wanted.give ? wanted.bytes : 0)) return kMalformed;
    const std::lock_guard lock(mutex_);
    reap();
    const GraphImage* image = runs_.empty() ? last_.get() : runs_.front().image.get();
    if (!image) return CUDA_ERROR_INVALID_VALUE;
    if (wanted.bytes > wire::kChunk || wanted.bytes > image->size() ||
        wanted.offset > image->size() - wanted.bytes) {
        return kMalformed;
    }
    std::byte* there = image->data() + wanted.offset;
    if (wanted.give) {
        std::copy(given.begin(), given.end(), there);
        return CUDA_SUCCESS;
    }
    reply.put(uint32_t{1});
    reply.put_bytes(there, wanted.bytes);
    return CUDA_SUCCESS;
}

}  // namespace worker
