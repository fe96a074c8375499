// The CUDA driver (or the software GPU) as a table of functions, filled by dlsym.
#pragma once

#include <string>

#include "cuda_abi.h"
#include "libraries/call.h"
#include "softgpu/driver/extension.h"

namespace worker {

// The oldest driver that can be served, as cuDriverGetVersion says it: the first one that lists a library's
// kernels and the places of their parameters, which clients must know. All else that the worker calls is as
// old, or has an older form; tests/forwarding/test_older_drivers.py holds it to that.
inline constexpr int kOldestDriver = 12040;

// A function that the driver lacks is null; `invoke` then answers CUDA_ERROR_NOT_SUPPORTED.
struct Driver {
#define DRIVER_FUNCTION(name) decltype(&::name) name = nullptr;
#include "driver_functions.inc"
#undef DRIVER_FUNCTION

    // What a software GPU offers beyond CUDA; null on a real driver.
    const GkSoftgpuExtension* software = nullptr;
    GkLibraryCallFunction library_call = nullptr;

    // Opens the library at `path`. False, with the reason in `error`, when that fails, it is no driver, or it
    // is too old to say what a library's kernels are.
    bool open(const char* path, std::string& error);
};

template <typename... Parameters, typename... Arguments>
CUresult invoke(CUresult (*function)(Parameters...), Arguments... arguments) {
    return function ? function(arguments...) : CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace worker
