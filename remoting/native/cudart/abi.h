// The runtime's ABI for its implementation: cuda_runtime_api.h of the release that this library is, what
// nvcc's output calls, and cuda.h with every form of every function (cuda/cuda_abi.h).
#pragma once

#define __CUDA_API_VERSION_INTERNAL 1
#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>
extern "C" {
#include "extra.h"
}
#pragma GCC visibility pop

#include "cuda_abi.h"
