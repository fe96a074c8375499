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

// What a call works with beside its message.
struct CusolverCall {
    void* library;
    void* handle;  // of the part that the function is of
    CUstream stream;
    MakeRoom make_room;
    HostMemory& host_memory;  // where the library works in the worker's own
    // Work of the stream: so many bytes of a value, 4 or 8, at an address of the device.
    std::function<CUresult(uint64_t address, uint64_t value, size_t bytes)> write;
    // The same of the worker's own memory; `read` waits until it is there, `put` until it was taken.
    std::function<CUresult(uint64_t address, void* to, size_t bytes)> read;
    std::function<CUresult(uint64_t address, const void* from, size_t bytes)> put;
};

// What makes a handle for it.
const char* cusolver_create(uint16_t function);

// `arguments` was looked at.
CUresult invoke_cusolver(uint16_t function, const void* arguments, const CusolverCall& call);

}  // namespace worker
