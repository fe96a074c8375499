// A call of NVIDIA's cuDNN: its descriptors are made from the message, and end with the call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nvidia_cusolver.h"

namespace worker {

// What a call works with beside its message. The workspace is the slice's.
struct CudnnCall {
    void* library;
    void* handle;
    CUstream stream;
    uint64_t workspace, workspace_bytes;
    const MakeRoom& make_room;
    // Puts what was asked to the slice's memory, in the stream's order.
    const std::function<CUresult(uint64_t address, const void* from, size_t bytes)>& put;
};

// `arguments` was looked at, and is changed. A convolution is done by the algorithm that NVIDIA's library puts first
// among those that need no more than the workspace.
CUresult invoke_cudnn(uint16_t function, void* arguments, const CudnnCall& call);

}  // namespace worker
