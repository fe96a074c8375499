// One fat binary of the program, as nvcc's output registers it.
#pragma once

#include <mutex>
#include <vector>

#include "registry.h"

namespace cudart {

struct FatBinary {
    // First, because programs may follow the handle that they get: it is a pointer to a pointer.
    const void* wrapper;
    std::mutex mutex;  // of `library`
    std::atomic<CUlibrary> library{nullptr};
    // Why it can never be loaded, once that is known: programs launch in loops.
    std::atomic<CUresult> refusal{CUDA_SUCCESS};
    std::vector<Kernel*> kernels;
    std::vector<Variable*> variables;
    std::vector<ManagedVariable> managed;
};

// The library of `binary`, loaded if it is not.
CUresult load(const Driver& driver, FatBinary& binary, CUlibrary& library);

}  // namespace cudart
