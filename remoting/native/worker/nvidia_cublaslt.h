// A call of NVIDIA's cuBLASLt: its descriptors are made from the message, and end with the call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_abi.h"

namespace worker {

// What a call works with beside its message. The workspace is the slice's.
struct LtCall {
    void* library;
    void* handle;
    CUstream stream;
    bool scalars_on_device;
    uint64_t workspace, workspace_bytes;
};

// `arguments` was looked at; a status of cuBLAS. The algorithm is the one that NVIDIA's heuristic puts first.
int invoke_cublaslt(uint16_t function, const void* arguments, const LtCall& call);
// Whether it has one for a cublasLtMatmul, of which nothing is computed, and how much workspace that needs.
int ask_cublaslt(const void* arguments, const LtCall& call, uint64_t& workspace_bytes);

}  // namespace worker
