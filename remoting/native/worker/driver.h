// The CUDA driver (or the software GPU) as a table of functions, filled by dlsym.
#pragma once

#include <string>

#include "cuda_abi.h"

namespace worker {

// A function that the driver lacks is null; `invoke` then answers CUDA_ERROR_NOT_SUPPORTED.
struct Driver {
#define DRIVER_FUNCTION(name) decltype(&::name) name = nullptr;
#include "driver_functions.inc"
#undef DRIVER_FUNCTION

    // Opens the library at `path`. False, with the reason in `error`, when that fails or it is no driver.
    bool open(const char* path, std::string& error);
};

template <typename... Parameters, typename... Arguments>
CUresult invoke(CUresult (*function)(Parameters...), Arguments... arguments) {
    return function ? function(arguments...) : CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace worker
