// One fat binary of the program, as nvcc's output registers it.
#pragma once

#include <mutex>
#include <vector>

#include "registry.h"

namespace cudart {

struct FatBinary {
    // First, because programs may follow the handle that they get: it is a pointer to a pointer.
    const void* wrapper;
    std::mutex mutex;  // of what is kept of it
    Kept<CUlibrary> library{};
    // Why it can never be loaded, once that is known: programs launch in loops.
    Kept<CUresult> refusal{};
    // The program looks at its managed variables: it is shown where they are in each life.
    std::atomic<bool> shows_managed{false};
    Kept<bool> shown{};
    std::vector<Kernel*> kernels;
    std::vector<Variable*> variables;
    std::vector<ManagedVariable> managed;
};

// Where the program finds its managed variables.
CUresult show_managed(const Driver& driver, FatBinary& binary, CUlibrary library);

// The library of `binary`, loaded if it is not.
CUresult load(const Driver& driver, FatBinary& binary, CUlibrary& library);

}  // namespace cudart
