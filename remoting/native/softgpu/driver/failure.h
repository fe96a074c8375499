// How the driver layer's own code refuses: by throwing Failure, which the entry points turn into a CUresult.
#pragma once

#include "graphs/failure.h"

namespace softgpu::driver {

using graphs::check;
using graphs::Failure;
using graphs::refuse;
using graphs::require;

}  // namespace softgpu::driver
