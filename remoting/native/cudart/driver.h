// The process's libcuda.so.1 as a table of functions.
//
// It is opened with the first call that needs it and never closed; until then this library does nothing.
// Preloaded into a shell, it costs its loading.
#pragma once

#include "abi.h"

namespace cudart {

// A function that the driver lacks is null; `invoke` (forward.h) then answers CUDA_ERROR_NOT_SUPPORTED.
struct Driver {
#define DRIVER_FUNCTION(name) decltype(&::name) name;
#include "driver_functions.inc"
#undef DRIVER_FUNCTION
};

// The driver, initialised. Null, with the reason in `error`, when there is none, when it has no device, or
// when this process was forked from one that used it.
const Driver* use_driver(cudaError_t& error);

// The driver if it has been opened; null in a forked child.
const Driver* opened_driver();

// Whether this process was forked from one that had opened the driver: nothing of it works here.
bool forked();

}  // namespace cudart
