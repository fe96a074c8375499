// Values that a stream writes to memory, or waits for there. A wait that never comes true is to the worker as
// a kernel that never ends: an interrupt ends it on a software GPU.
#include "handlers.h"
#include "stream_memory_op.h"

namespace worker {
namespace {

CUstreamBatchMemOpParams as_driver(const cuda::StreamMemoryOp& op) {
    CUstreamBatchMemOpParams params{};
    params.operation = static_cast<CUstreamBatchMemOpType>(op.kind);
    if (op.waits()) {
        params.waitValue.address = op.address;
        params.waitValue.value64 = op.value;
        params.waitValue.flags = op.flags;
    } else if (op.writes()) {
        params.writeValue.address = op.address;
        params.writeValue.value64 = op.value;
    } else {
        params.memoryBarrier.flags = op.flags;
    }
    return params;
}

}  // namespace

CUresult handle_stream_memory(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::StreamMemoryHead head;
    if (!payload.take(head) || head.count == 0 || head.count > cuda::kMaxStreamMemoryOps) return kMalformed;
    CUstream stream;
    const bool known = context.stream(head.stream, stream);
    std::vector<CUstreamBatchMemOpParams> all;
    bool accessible = true;
    for (uint32_t i = 0; i < head.count; ++i) {
        wire::StreamMemoryOp taken;
        if (!payload.take(taken)) return kMalformed;
        const cuda::StreamMemoryOp op{taken.kind, taken.flags, taken.address, taken.value};
        if (cuda::check_stream_memory_op(op) != CUDA_SUCCESS) return kMalformed;
        if (op.waits() || op.writes()) accessible &= context.accessible(op.address, op.bytes());
        all.push_back(as_driver(op));
    }
    if (!payload.finished()) return kMalformed;
    if (!known) return CUDA_ERROR_INVALID_HANDLE;
    if (!accessible) return CUDA_ERROR_INVALID_VALUE;
    return invoke(context.driver().cuStreamBatchMemOp_v2, stream, head.count, all.data(), 0u);
}

}  // namespace worker
