// Entry points: values that a stream writes to memory, or waits for there.
#include "call.h"
#include "capture.h"
#include "host_files.h"
#include "memory_map.h"
#include "shared_memory.h"
#include "stream_memory_op.h"

using namespace client;

namespace {

using cuda::StreamMemoryOp;

CUresult refuse_wait() {
    static bool told;
    return gk_unsupported_once("a stream that waits for a value in host memory", &told);
}

// Managed memory is for none of these operations, as CUDA has it. Where pinned memory is not the same pages
// on both sides the program cannot change it on the device while a stream waits, so a wait might never end.
CUresult reach(Call& call, StreamMemoryOp& op) {
    const auto memory = MemoryMap::get().find(op.address);
    if (memory && memory->kind == Memory::Kind::managed) return CUDA_ERROR_INVALID_VALUE;
    const bool waits_for_host = memory && memory->kind == Memory::Kind::pinned && op.waits();
    if (waits_for_host && HostFiles::get().file_at(memory->base) < 0) return refuse_wait();
    if (CUresult error = call.reach(op.address, op.bytes())) return error;
    const auto reached = MemoryMap::get().find(op.address);
    return waits_for_host && !(reached && reached->in_place) ? refuse_wait() : CUDA_SUCCESS;
}

CUresult submit(CUstream stream, bool per_thread, std::vector<StreamMemoryOp> ops) {
    Call call;
    if (CUresult error = call.begin_for(stream)) return error;
    wire::StreamMemoryHead head{};
    if (!call.stream(stream, per_thread, head.stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult error = refuse_captured(stream, per_thread)) return error;
    std::vector<wire::StreamMemoryOp> sent;
    for (StreamMemoryOp& op : ops) {
        if (op.waits() || op.writes()) {
            if (CUresult error = reach(call, op)) return error;
            if (CUresult error = SharedMemory::get().to_device_for(call, op.address)) return error;
        }
        sent.push_back({op.kind, op.flags, op.address, op.value});
    }
    head.count = static_cast<uint32_t>(sent.size());
    const iovec parts[2] = {{&head, sizeof head}, {sent.data(), sent.size() * sizeof sent[0]}};
    return call.post_parts(wire::kOpStreamMemory, 0, parts, 2);
}

CUresult submit_one(CUstream stream, bool per_thread, const StreamMemoryOp& op) {
    const CUresult error = cuda::check_stream_memory_op(op);
    return error == CUDA_SUCCESS ? submit(stream, per_thread, {op}) : error;
}

CUresult submit_batch(CUstream stream, bool per_thread, unsigned count,
                      const CUstreamBatchMemOpParams* params, unsigned flags) {
    std::vector<StreamMemoryOp> ops;
    const CUresult error = cuda::read_stream_memory_ops(count, params, flags, ops);
    return error == CUDA_SUCCESS ? submit(stream, per_thread, std::move(ops)) : error;
}

}  // namespace

extern "C" {

#define BOTH_FORMS(name, kind, Value)                                                          \
    CUresult name(CUstream stream, CUdeviceptr addr, Value value, unsigned int flags) {        \
        return submit_one(stream, false, {kind, flags, addr, value});                          \
    }                                                                                          \
    CUresult name##_ptsz(CUstream stream, CUdeviceptr addr, Value value, unsigned int flags) { \
        return submit_one(stream, true, {kind, flags, addr, value});                           \
    }

BOTH_FORMS(cuStreamWaitValue32_v2, CU_STREAM_MEM_OP_WAIT_VALUE_32, cuuint32_t)
BOTH_FORMS(cuStreamWaitValue64_v2, CU_STREAM_MEM_OP_WAIT_VALUE_64, cuuint64_t)
BOTH_FORMS(cuStreamWriteValue32_v2, CU_STREAM_MEM_OP_WRITE_VALUE_32, cuuint32_t)
BOTH_FORMS(cuStreamWriteValue64_v2, CU_STREAM_MEM_OP_WRITE_VALUE_64, cuuint64_t)
#undef BOTH_FORMS

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* paramArray,
                               unsigned int flags) {
    return submit_batch(stream, false, count, paramArray, flags);
}
CUresult cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* paramArray,
                                    unsigned int flags) {
    return submit_batch(stream, true, count, paramArray, flags);
}
}
