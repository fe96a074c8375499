// A call of NVIDIA's cuSPARSE: its descriptors are made from the message, and end with the call; so a call
// that a program made in several steps is made in all of them here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "cuda_abi.h"

namespace worker {

// What a call works with beside its message. Memory is the slice's.
struct CusparseCall {
    void* library;
    void* handle;
    CUstream stream;
    bool scalars_on_device;
    // For the stream's calls to work in: one after another in the same place.
    std::function<CUresult(uint64_t bytes, uint64_t& address)> make_room;
    // For this call alone: given back when its work is done.
    std::function<CUresult(uint64_t bytes, uint64_t& address)> allocate;
    std::function<void(uint64_t address)> give_back;
    // Whether it is the lease's memory.
    std::function<bool(uint64_t address, uint64_t bytes)> accessible;
    // Work of the stream: so many bytes of a value, 4 or 8, at an address of the device.
    std::function<CUresult(uint64_t address, uint64_t value, size_t bytes)> write;
};

// `arguments` was looked at.
CUresult invoke_cusparse(uint16_t function, const void* arguments, const CusparseCall& call);

}  // namespace worker
