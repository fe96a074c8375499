// Calls of maths libraries (libraries/call.h) as operations of a stream: done by the CPU end, a library
// beside this one, which is opened at the first of them.
#pragma once

#include <cstddef>
#include <functional>

#include "cuda_abi.h"

namespace softgpu::driver {

class Context;

// kGkLook: whether the CPU end is there, and what it is. Any thread, before cuInit too.
CUresult look(const void* call, size_t bytes);
// kGkLook, kGkForget or the function of a call.
uint16_t function_of(const void* call, size_t bytes);

// The operation. Throws NOT_SUPPORTED without the CPU end, INVALID_VALUE for what cannot be a call.
std::function<CUresult()> prepare_library_call(Context& context, const void* call, size_t bytes);

}  // namespace softgpu::driver
