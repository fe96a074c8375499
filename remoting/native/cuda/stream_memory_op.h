// One operation of a stream on memory: a value that it writes, or that it waits for. Read from CUDA's forms
// in one way by the client and the software GPU, so both refuse the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda_abi.h"

namespace cuda {

inline constexpr unsigned kMaxStreamMemoryOps = 255;  // of one batch: "less than 256"

struct StreamMemoryOp {
    uint32_t kind = 0;   // CUstreamBatchMemOpType
    uint32_t flags = 0;  // of a wait, how it compares; of a barrier, for whom
    uint64_t address = 0;
    uint64_t value = 0;

    bool waits() const {
        return kind == CU_STREAM_MEM_OP_WAIT_VALUE_32 || kind == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    }
    bool writes() const {
        return kind == CU_STREAM_MEM_OP_WRITE_VALUE_32 || kind == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    }
    uint64_t bytes() const {
        return kind == CU_STREAM_MEM_OP_WAIT_VALUE_32 || kind == CU_STREAM_MEM_OP_WRITE_VALUE_32 ? 4 : 8;
    }
};

// What CUDA answers to an operation: what is wrong with it whatever memory it names, and what no device here
// can.
inline CUresult check_stream_memory_op(const StreamMemoryOp& op) {
    if (op.kind == CU_STREAM_MEM_OP_BARRIER)
        return op.flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (op.kind == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES || op.kind == CU_STREAM_MEM_OP_ATOMIC_REDUCTION)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!op.waits() && !op.writes()) return CUDA_ERROR_INVALID_VALUE;
    if (op.address == 0 || op.address % op.bytes() != 0) return CUDA_ERROR_INVALID_VALUE;
    if (op.writes()) return op.flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    constexpr uint32_t kFlush = CU_STREAM_WAIT_VALUE_FLUSH;
    if ((op.flags & ~kFlush) > CU_STREAM_WAIT_VALUE_NOR) return CUDA_ERROR_INVALID_VALUE;
    return op.flags & kFlush ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

inline StreamMemoryOp stream_memory_op(const CUstreamBatchMemOpParams& params) {
    StreamMemoryOp op;
    op.kind = params.operation;
    if (op.kind == CU_STREAM_MEM_OP_BARRIER) {
        op.flags = params.memoryBarrier.flags;
    } else if (op.waits()) {
        op.flags = params.waitValue.flags;
        op.address = params.waitValue.address;
        op.value = op.bytes() == 4 ? params.waitValue.value : params.waitValue.value64;
    } else if (op.writes()) {
        op.flags = params.writeValue.flags;
        op.address = params.writeValue.address;
        op.value = op.bytes() == 4 ? params.writeValue.value : params.writeValue.value64;
    }
    return op;
}

inline CUresult read_stream_memory_ops(unsigned count, const CUstreamBatchMemOpParams* params, unsigned flags,
                                       std::vector<StreamMemoryOp>& ops) {
    if (count == 0 || count > kMaxStreamMemoryOps || !params || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    for (const auto& one : std::span(params, count)) {
        ops.push_back(stream_memory_op(one));
        if (CUresult error = check_stream_memory_op(ops.back())) return error;
    }
    return CUDA_SUCCESS;
}

}  // namespace cuda
