// A call of NVIDIA's cuSOLVER: the room that it asks for is the slice's, and its objects end with the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "cuda_abi.h"

namespace worker {

class HostMemory;

// Gives memory of the slice for the stream's calls to work in.
using MakeRoom = std::function<CUresult(uint64_t bytes, uint64_t& address)>;

// `arguments` was looked at. What the library works in on the host is the worker's own memory.
CUresult invoke_cusolver(uint16_t function, const void* arguments, void* library, void* handle,
                         CUstream stream, const MakeRoom& make_room, HostMemory& host_memory);

}  // namespace worker
