// Pinned host memory that kernels use under its own address.
//
// A program's pinned memory lies in a window of addresses that is this process's own, drawn at random far
// from programs, libraries and devices. When a kernel is given such an address, the worker reserves the same
// addresses on the GPU and puts memory of the slice there: a twin, which is then shared memory like any other
// (shared_memory.h). So a pointer means the same on both sides, in parameters and wherever a kernel stores
// it. Most pinned memory is only copied from and to, and never has a twin.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call.h"
#include "memory_map.h"

namespace client {

// Memory of the host for `bytes`, in the window where possible; null when there is none.
void* map_pinned(uint64_t bytes);
void unmap_pinned(void* memory, uint64_t bytes);

// Gives the pinned memory a place on the device, at its own address where that can be; `known` is then up to
// date.
CUresult give_twin(Call& call, Memory& known);
// The device's side is freed; the host's side is the caller's business.
void drop_twin(const Memory& memory);

// Before a launch: twins for the pinned memory that its parameters point to.
CUresult reach_parameters(Call& call, const std::byte* parameters, size_t bytes);

}  // namespace client
